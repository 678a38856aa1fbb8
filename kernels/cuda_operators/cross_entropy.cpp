// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/cross_entropy.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <limits>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {
namespace {

CrossEntropyArguments logits_arguments(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first_column) {
  return {.element = *element_of(logits),
          .logits = const_cast<void*>(logits.const_data_ptr()),  // written by those that are to
          .targets = targets.const_data_ptr<std::int64_t>(),
          .rows = logits.size(0),
          .columns = static_cast<int>(logits.size(1)),
          .first_column = first_column};
}

at::Tensor fp32_results(const at::Tensor& logits, at::IntArrayRef shape) {
  return at::empty(shape, logits.options().dtype(at::kFloat));
}

}  // namespace

bool has_cuda_cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  return has_kernels(logits) && logits.is_contiguous() && targets.is_contiguous() &&
         logits.size(1) <= std::numeric_limits<int>::max();
}

at::Tensor cuda_cross_entropy_forward(const at::Tensor& logits, const at::Tensor& targets) {
  const c10::DeviceGuard guard(logits.device());
  at::Tensor losses = fp32_results(logits, {logits.size(0)});
  kernel_table()->cross_entropy->forward(logits_arguments(logits, targets, 0), losses.mutable_data_ptr<float>(),
                                         stream_of(logits));
  return losses;
}

at::Tensor cuda_cross_entropy_forward_backward_(at::Tensor& logits, const at::Tensor& targets, double scale) {
  const c10::DeviceGuard guard(logits.device());
  at::Tensor losses = fp32_results(logits, {logits.size(0)});
  kernel_table()->cross_entropy->forward_backward(logits_arguments(logits, targets, 0), static_cast<float>(scale),
                                                  losses.mutable_data_ptr<float>(), stream_of(logits));
  return losses;
}

at::Tensor cuda_cross_entropy_statistics(const at::Tensor& logits, const at::Tensor& targets,
                                         const VocabularySlice& slice) {
  const c10::DeviceGuard guard(logits.device());
  at::Tensor statistics = fp32_results(logits, {logits.size(0), 3});
  kernel_table()->cross_entropy->statistics(logits_arguments(logits, targets, slice.begin),
                                            statistics.mutable_data_ptr<float>(), stream_of(logits));
  return statistics;
}

void cuda_cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, const VocabularySlice& slice,
                                  const at::Tensor& statistics, double scale) {
  const c10::DeviceGuard guard(logits.device());
  const at::Tensor whole = statistics.contiguous();
  kernel_table()->cross_entropy->backward(logits_arguments(logits, targets, slice.begin), whole.const_data_ptr<float>(),
                                          static_cast<float>(scale), stream_of(logits));
}

}  // namespace llmtrain::kernels
