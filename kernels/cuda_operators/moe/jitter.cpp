// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/moe/jitter.h"

#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {

bool has_cuda_jitter(const at::Tensor& x) { return has_kernels(x); }

void cuda_jitter(const at::Tensor& x, const at::Tensor& out, const std::vector<ElementRun>& runs,
                 const Jitter& jitter) {
  const c10::DeviceGuard guard(x.device());
  const auto bytes = static_cast<std::int64_t>(x.element_size());
  for_alike(runs, [&](const ElementRun& run, std::int64_t count, std::int64_t stride) {
    kernel_table()->jitter->jitter({.element = *element_of(x),
                                    .x = static_cast<const char*>(x.const_data_ptr()) + bytes * run.offset,
                                    .out = out.mutable_data_ptr<float>() + run.offset,
                                    .length = run.length,
                                    .runs = count,
                                    .first = run.first_element,
                                    .stride = stride,
                                    .key = jitter.key,
                                    .amplitude = jitter.amplitude},
                                   stream_of(x));
  });
}

}  // namespace llmtrain::kernels
