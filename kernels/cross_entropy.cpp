// SPDX-License-Identifier: Apache-2.0
#include "kernels/cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "kernels/parallel_for.h"
#include "kernels/vector/cross_entropy.h"
#include "kernels/vector/level.h"

namespace llmtrain::kernels {
namespace {

// Logits per thread below which starting a second one costs more than it saves.
constexpr std::int64_t grain = 8192;

void check_shapes(const at::Tensor& logits, const at::Tensor& targets) {
  if (logits.dim() != 2 || targets.dim() != 1 || targets.size(0) != logits.size(0) ||
      targets.scalar_type() != at::kLong) {
    throw Error(ExitCode::internal_error, "cross-entropy: logits must be [T, V] and targets int64 [T]");
  }
}

void check_targets(const at::Tensor& targets, std::int64_t columns) {
  const at::Tensor outside = targets.lt(0).logical_or_(targets.ge(columns));
  if (!outside.any().item<bool>()) return;
  const std::int64_t row = outside.nonzero()[0].item<std::int64_t>();
  throw Error(ExitCode::bad_data, "cross-entropy: target " + std::to_string(targets[row].item<std::int64_t>()) +
                                      " of token " + std::to_string(row) + " is not in [0, " + std::to_string(columns) +
                                      "), the model's vocabulary; tokenize the data with the model's tokenizer");
}

bool can_fuse(const at::Tensor& logits, const at::Tensor& targets) {
  return logits.device().is_cpu() && logits.is_contiguous() && targets.is_contiguous() &&
         (logits.scalar_type() == at::kFloat || logits.scalar_type() == at::kBFloat16);
}

// Calls row(pointer to the row's logits, its target) for every row, which returns the loss.
template <class Value, class Row>
at::Tensor losses_of_rows(const at::Tensor& logits, const at::Tensor& targets, Row row) {
  const std::int64_t columns = logits.size(1);
  auto* values = static_cast<Value*>(logits.data_ptr());
  const auto* target = targets.const_data_ptr<std::int64_t>();
  at::Tensor losses = at::empty(targets.sizes(), at::kFloat);
  auto* loss = losses.data_ptr<float>();
  at::parallel_for(0, targets.size(0), std::max<std::int64_t>(grain / std::max<std::int64_t>(columns, 1), 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t t = begin; t < end; ++t) loss[t] = row(values + t * columns, target[t]);
                   });
  return losses;
}

template <class Value>
at::Tensor fused_forward(const vector::CrossEntropyRow<Value>& kernel, const at::Tensor& logits,
                         const at::Tensor& targets) {
  return losses_of_rows<Value>(logits, targets, [&, columns = logits.size(1)](const Value* row, std::int64_t target) {
    return kernel.loss(row, columns, target);
  });
}

template <class Value>
at::Tensor fused_forward_backward(const vector::CrossEntropyRow<Value>& kernel, const at::Tensor& logits,
                                  const at::Tensor& targets, double scale) {
  return losses_of_rows<Value>(logits, targets, [&, columns = logits.size(1)](Value* row, std::int64_t target) {
    return kernel.loss_and_gradient(row, columns, target, static_cast<float>(scale));
  });
}

at::Tensor reference_log_probabilities(const at::Tensor& logits) {
  return at::log_softmax(logits, 1, logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

at::Tensor reference_losses(const at::Tensor& log_probabilities, const at::Tensor& targets) {
  return log_probabilities.gather(1, targets.unsqueeze(1)).squeeze(1).neg();
}

vector::CrossEntropyKernels kernels_of_processor() {
  return vector::at_level([]<int level> { return vector::cross_entropy_kernels_for<level>(); });
}

}  // namespace

at::Tensor cross_entropy_forward(const at::Tensor& logits, const at::Tensor& targets) {
  check_shapes(logits, targets);
  check_targets(targets, logits.size(1));
  if (!can_fuse(logits, targets)) return reference_losses(reference_log_probabilities(logits), targets);
  const auto kernels = kernels_of_processor();
  return logits.scalar_type() == at::kFloat ? fused_forward(kernels.fp32, logits, targets)
                                            : fused_forward(kernels.bf16, logits, targets);
}

at::Tensor cross_entropy_forward_backward_(at::Tensor& logits, const at::Tensor& targets, double scale) {
  check_shapes(logits, targets);
  check_targets(targets, logits.size(1));
  if (can_fuse(logits, targets)) {
    const auto kernels = kernels_of_processor();
    return logits.scalar_type() == at::kFloat ? fused_forward_backward(kernels.fp32, logits, targets, scale)
                                              : fused_forward_backward(kernels.bf16, logits, targets, scale);
  }
  const at::Tensor log_probabilities = reference_log_probabilities(logits);
  at::Tensor losses = reference_losses(log_probabilities, targets);
  const at::Tensor minus_one = at::full({targets.size(0), 1}, -1, log_probabilities.options());
  logits.copy_(log_probabilities.exp().scatter_add_(1, targets.unsqueeze(1), minus_one).mul_(scale));
  return losses;
}

}  // namespace llmtrain::kernels
