// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/joined_heads.h"

#include <c10/core/DeviceGuard.h>

#include <limits>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"
#include "kernels/cuda_operators/rope.h"

namespace llmtrain::kernels {
namespace {

HeadsOperand operand(const at::Tensor& x) {
  return {.x = x.const_data_ptr(),
          .heads = static_cast<int>(x.size(2)),
          .token_stride = x.stride(1),
          .head_stride = x.stride(2)};
}

// As far from the last token of a sequence to the first one of the next as within one.
bool has_even_tokens(const at::Tensor& x) { return x.size(0) <= 1 || x.stride(0) == x.size(1) * x.stride(1); }

}  // namespace

bool has_cuda_join_heads(const HeadGradients& gradients, const RopeTable* table, const at::Tensor& joined) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  if (!has_kernels(joined) || !joined.is_contiguous() || joined.size(3) % 2 != 0) return false;
  if (joined.size(0) * joined.size(1) > most || joined.size(2) * joined.size(3) > most) return false;
  for (const at::Tensor* x : {&gradients.query, &gradients.key, &gradients.value})
    if (x->scalar_type() != joined.scalar_type() || x->stride(-1) != 1 || !has_even_tokens(*x)) return false;
  return table == nullptr || is_cuda_rope_table(*table);
}

void cuda_join_heads(const HeadGradients& gradients, const RopeTable* table, std::int64_t sequence_length,
                     const at::Tensor& joined) {
  const c10::DeviceGuard guard(joined.device());
  kernel_table()->joined_heads->join({.element = *element_of(joined),
                                      .query = operand(gradients.query),
                                      .key = operand(gradients.key),
                                      .value = operand(gradients.value),
                                      .joined = joined.mutable_data_ptr(),
                                      .cosine = table != nullptr ? table->cosine.const_data_ptr<float>() : nullptr,
                                      .sine = table != nullptr ? table->sine.const_data_ptr<float>() : nullptr,
                                      .tokens = joined.size(0) * joined.size(1),
                                      .half = static_cast<int>(joined.size(3) / 2),
                                      .sequence_length = sequence_length},
                                     stream_of(joined));
}

}  // namespace llmtrain::kernels
