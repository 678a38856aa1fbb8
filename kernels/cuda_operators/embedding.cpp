// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/embedding.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/sort.h>
#include <c10/core/DeviceGuard.h>

#include <limits>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {
namespace {

bool is_fp32_array(const at::Tensor& gradient) {
  return gradient.scalar_type() == at::kFloat && gradient.is_contiguous();
}

// gradient[targets[i]] += dy[i]. A stable sort leaves rows of one target in their order.
void add_rows(const at::Tensor& dy, const at::Tensor& targets, const at::Tensor& gradient) {
  const auto [sorted, rows] = at::sort(targets.reshape({-1}), true, 0, false);
  kernel_table()->embedding->add_rows({.element = *element_of(dy),
                                       .dy = dy.const_data_ptr(),
                                       .targets = sorted.const_data_ptr<std::int64_t>(),
                                       .rows = rows.const_data_ptr<std::int64_t>(),
                                       .gradient = gradient.mutable_data_ptr<float>(),
                                       .count = targets.numel(),
                                       .table = gradient.size(0),
                                       .width = static_cast<int>(dy.size(-1))},
                                      stream_of(dy));
}

}  // namespace

bool has_cuda_embedding_backward(const at::Tensor& dy, const at::Tensor& dtable,
                                 const std::optional<at::Tensor>& dpositions) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  return has_kernels(dy) && dy.is_contiguous() && dy.size(0) <= most && dy.size(-1) <= most && is_fp32_array(dtable) &&
         (!dpositions || is_fp32_array(*dpositions));
}

void cuda_embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, const at::Tensor& dtable,
                             const std::optional<at::Tensor>& dpositions, std::int64_t sequence_length) {
  const c10::DeviceGuard guard(dy.device());
  add_rows(dy, tokens, dtable);
  if (!dpositions) return;
  add_rows(dy, at::arange(tokens.numel(), tokens.options()).remainder_(sequence_length), *dpositions);
}

}  // namespace llmtrain::kernels
