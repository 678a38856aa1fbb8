// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/rope.h"

#include <c10/core/DeviceGuard.h>

#include <limits>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {

bool is_cuda_rope_table(const RopeTable& table) {
  return table.cosine.scalar_type() == at::kFloat && table.cosine.is_contiguous() && table.sine.is_contiguous();
}

bool has_cuda_rope(const at::Tensor& x, const RopeTable& table) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  return has_kernels(x) && is_cuda_rope_table(table) && x.stride(-1) == 1 && x.size(0) <= most &&
         x.size(1) * x.size(2) <= most;
}

void cuda_rope_(const at::Tensor& x, const RopeTable& table, std::int64_t sequence_length, RopeDirection direction) {
  const c10::DeviceGuard guard(x.device());
  kernel_table()->rope->rotate({.element = *element_of(x),
                                .x = x.mutable_data_ptr(),
                                .cosine = table.cosine.const_data_ptr<float>(),
                                .sine = table.sine.const_data_ptr<float>(),
                                .tokens = x.size(0),
                                .heads = static_cast<int>(x.size(1)),
                                .half = static_cast<int>(x.size(2) / 2),
                                .token_stride = x.stride(0),
                                .head_stride = x.stride(1),
                                .sequence_length = sequence_length,
                                .direction = direction == RopeDirection::forward ? 1.0F : -1.0F},
                               stream_of(x));
}

}  // namespace llmtrain::kernels
