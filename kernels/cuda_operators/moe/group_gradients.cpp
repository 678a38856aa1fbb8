// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/moe/group_gradients.h"

#include <c10/core/DeviceGuard.h>

#include "core/base/error.h"
#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {

namespace {

bool takes(const at::Tensor& products, const at::Tensor& gradients) {
  constexpr std::int64_t most_experts = 65535;  // rows of blocks
  const bool is_of_a_type = gradients.scalar_type() == at::kFloat || gradients.scalar_type() == products.scalar_type();
  return has_kernels(products) && products.is_contiguous() && gradients.is_contiguous() && is_of_a_type &&
         products.size(0) <= most_experts;
}

}  // namespace

void cuda_store_group_gradients(const at::Tensor& products, const at::Tensor& ends, const at::Tensor& gradients,
                                Accumulation accumulation) {
  if (!takes(products, gradients))
    throw Error(ExitCode::internal_error, "experts' gradients on a GPU have a layout or type that no kernel takes");
  const c10::DeviceGuard guard(products.device());
  kernel_table()->group_gradients->store({.element = *element_of(products),
                                          .gradient = *element_of(gradients),
                                          .products = products.const_data_ptr(),
                                          .ends = ends.const_data_ptr<int>(),
                                          .gradients = gradients.mutable_data_ptr(),
                                          .experts = static_cast<int>(products.size(0)),
                                          .size = products.size(1) * products.size(2),
                                          .adds = accumulation == Accumulation::add},
                                         stream_of(products));
}

}  // namespace llmtrain::kernels
