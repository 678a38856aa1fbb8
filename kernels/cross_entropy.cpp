// SPDX-License-Identifier: Apache-2.0
#include "kernels/cross_entropy.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <limits>
#include <string>

#include "core/base/error.h"
#include "kernels/accumulation_type.h"
#include "kernels/cuda_operators/cross_entropy.h"
#include "kernels/vector/cross_entropy.h"
#include "kernels/vector/level.h"

namespace llmtrain::kernels {
namespace {

// Logits per thread below which starting another thread costs more than it saves.
constexpr std::int64_t logits_per_thread = 8192;

void check_shapes(const at::Tensor& logits, const at::Tensor& targets) {
  if (logits.dim() != 2 || targets.dim() != 1 || targets.size(0) != logits.size(0) ||
      targets.scalar_type() != at::kLong) {
    throw Error(ExitCode::internal_error, "cross-entropy: logits must be [T, V] and targets int64 [T]");
  }
}

// Checked before anything is written: the kernels index a row by its target unchecked. A GPU's are not looked at here,
// which would make the host wait for everything before them: data are checked where they are read
// (core/data/samples/dataset.h).
void check_targets(const at::Tensor& targets, std::int64_t columns) {
  if (!targets.is_cpu()) return;
  const at::Tensor outside = targets.lt(0).logical_or_(targets.ge(columns));
  if (!outside.any().item<bool>()) return;
  const std::int64_t row = outside.nonzero()[0].item<std::int64_t>();
  throw Error(ExitCode::bad_data, "cross-entropy: target " + std::to_string(targets[row].item<std::int64_t>()) +
                                      " of token " + std::to_string(row) + " is not in [0, " + std::to_string(columns) +
                                      "), the model's vocabulary; tokenize the data with the model's tokenizer");
}

// The kernels overwrite logits in place and index rows by their length, hence contiguous.
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
  // A row is one thread's work, so that its sums have the same order for any number of threads.
  at::parallel_for(0, targets.size(0),
                   std::max<std::int64_t>(logits_per_thread / std::max<std::int64_t>(columns, 1), 1),
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
  return at::log_softmax(logits, 1, accumulation_type(logits));
}

at::Tensor reference_losses(const at::Tensor& log_probabilities, const at::Tensor& targets) {
  return log_probabilities.gather(1, targets.unsqueeze(1)).squeeze(1).neg();
}

// The loops for the instruction-set level of this processor.
vector::CrossEntropyKernels kernels_of_processor() {
  return vector::at_level([]<int level> { return vector::cross_entropy_kernels_for<level>(); });
}

// Calls row(pointer to the row's logits, its target among these columns, its three statistics) for every row.
template <class Value, class Row>
void for_statistics(const at::Tensor& logits, const at::Tensor& targets, const VocabularySlice& slice,
                    const at::Tensor& statistics, Row row) {
  const std::int64_t columns = logits.size(1);
  auto* values = static_cast<Value*>(logits.data_ptr());
  const auto* target = targets.const_data_ptr<std::int64_t>();
  auto* three = statistics.data_ptr<float>();
  // A target before or after this slice's columns gets an index outside [0, columns), which the kernels recognise.
  at::parallel_for(0, targets.size(0),
                   std::max<std::int64_t>(logits_per_thread / std::max<std::int64_t>(columns, 1), 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t t = begin; t < end; ++t)
                       row(values + t * columns, target[t] - slice.begin, three + 3 * t);
                   });
}

template <class Value>
void fused_statistics(const vector::CrossEntropyRow<Value>& kernel, const at::Tensor& logits, const at::Tensor& targets,
                      const VocabularySlice& slice, const at::Tensor& statistics) {
  const auto row = [&, columns = logits.size(1)](const Value* values, std::int64_t target, float* three) {
    const vector::CrossEntropyStatistics result = kernel.statistics(values, columns, target);
    three[0] = result.maximum;
    three[1] = result.sum;
    three[2] = result.target_logit;
  };
  for_statistics<Value>(logits, targets, slice, statistics, row);
}

template <class Value>
void fused_backward(const vector::CrossEntropyRow<Value>& kernel, const at::Tensor& logits, const at::Tensor& targets,
                    const VocabularySlice& slice, const at::Tensor& statistics, float scale) {
  const auto row = [&, columns = logits.size(1)](Value* values, std::int64_t target, const float* three) {
    kernel.gradient(values, columns, target, {three[0], three[1], three[2]}, scale);
  };
  for_statistics<Value>(logits, targets, slice, statistics, row);
}

// 1 where a column is the row's target.
at::Tensor one_hot_here(const at::Tensor& logits, const at::Tensor& targets, const VocabularySlice& slice) {
  const at::Tensor columns = at::arange(slice.begin, slice.begin + logits.size(1), targets.options());
  return targets.unsqueeze(1).eq(columns.unsqueeze(0));
}

at::Tensor reference_statistics(const at::Tensor& logits, const at::Tensor& targets, const VocabularySlice& slice,
                                const at::TensorOptions& options) {
  const at::Tensor wide = logits.to(options.dtype());
  // A column of −∞ gives a slice without columns a maximum.
  const at::Tensor none = at::full({logits.size(0), 1}, -std::numeric_limits<double>::infinity(), options);
  const at::Tensor maximum = at::cat({wide, none}, 1).amax(1);
  const at::Tensor sum = wide.sub(maximum.unsqueeze(1)).exp().sum(1);
  return at::stack({maximum, sum, wide.mul(one_hot_here(logits, targets, slice)).sum(1)}, 1);
}

}  // namespace

at::Tensor cross_entropy_forward(const at::Tensor& logits, const at::Tensor& targets) {
  check_shapes(logits, targets);
  check_targets(targets, logits.size(1));
  if (has_cuda_cross_entropy(logits, targets)) return cuda_cross_entropy_forward(logits, targets);
  if (!can_fuse(logits, targets)) return reference_losses(reference_log_probabilities(logits), targets);
  const auto kernels = kernels_of_processor();
  return logits.scalar_type() == at::kFloat ? fused_forward(kernels.fp32, logits, targets)
                                            : fused_forward(kernels.bf16, logits, targets);
}

at::Tensor cross_entropy_forward_backward_(at::Tensor& logits, const at::Tensor& targets, double scale) {
  check_shapes(logits, targets);
  check_targets(targets, logits.size(1));
  if (has_cuda_cross_entropy(logits, targets)) return cuda_cross_entropy_forward_backward_(logits, targets, scale);
  if (can_fuse(logits, targets)) {
    const auto kernels = kernels_of_processor();
    return logits.scalar_type() == at::kFloat ? fused_forward_backward(kernels.fp32, logits, targets, scale)
                                              : fused_forward_backward(kernels.bf16, logits, targets, scale);
  }
  const at::Tensor log_probabilities = reference_log_probabilities(logits);
  at::Tensor losses = reference_losses(log_probabilities, targets);
  // softmax − one_hot: −1 is added at each row's target.
  const at::Tensor minus_one = at::full({targets.size(0), 1}, -1, log_probabilities.options());
  logits.copy_(log_probabilities.exp().scatter_add_(1, targets.unsqueeze(1), minus_one).mul_(scale));
  return losses;
}

at::Tensor cross_entropy_statistics(const at::Tensor& logits, const at::Tensor& targets, const VocabularySlice& slice) {
  check_shapes(logits, targets);
  check_targets(targets, slice.whole);
  if (has_cuda_cross_entropy(logits, targets)) return cuda_cross_entropy_statistics(logits, targets, slice);
  const auto options = logits.options().dtype(accumulation_type(logits));
  if (!can_fuse(logits, targets)) return reference_statistics(logits, targets, slice, options);
  const auto kernels = kernels_of_processor();
  const at::Tensor statistics = at::empty({targets.size(0), 3}, options);
  if (logits.scalar_type() == at::kFloat) {
    fused_statistics(kernels.fp32, logits, targets, slice, statistics);
  } else {
    fused_statistics(kernels.bf16, logits, targets, slice, statistics);
  }
  return statistics;
}

at::Tensor join_cross_entropy_statistics(const at::Tensor& of_slices) {
  // In float64, so that rescaling the slices' sums to the common maximum adds no error of its own. A slice without
  // columns has the maximum −∞ and thus the factor 0.
  const at::Tensor wide = of_slices.to(at::kDouble);
  const at::Tensor maxima = wide.select(2, 0);
  const at::Tensor maximum = maxima.amax(0);
  const at::Tensor sum = wide.select(2, 1).mul(maxima.sub(maximum).exp()).sum(0);
  return at::stack({maximum, sum, wide.select(2, 2).sum(0)}, 1).to(of_slices.scalar_type());
}

at::Tensor cross_entropy_losses(const at::Tensor& statistics) {
  // log Σ + maximum − target's logit, in float64: the two logits can be large and close to each other.
  const at::Tensor wide = statistics.to(at::kDouble);
  return wide.select(1, 1).log().add(wide.select(1, 0)).sub(wide.select(1, 2)).to(statistics.scalar_type());
}

void cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, const VocabularySlice& slice,
                             const at::Tensor& statistics, double scale) {
  if (has_cuda_cross_entropy(logits, targets))
    return cuda_cross_entropy_backward_(logits, targets, slice, statistics, scale);
  if (can_fuse(logits, targets) && statistics.is_contiguous()) {
    const auto kernels = kernels_of_processor();
    const auto narrow_scale = static_cast<float>(scale);
    return logits.scalar_type() == at::kFloat
               ? fused_backward(kernels.fp32, logits, targets, slice, statistics, narrow_scale)
               : fused_backward(kernels.bf16, logits, targets, slice, statistics, narrow_scale);
  }
  // The statistics are those of the whole row, so a slice needs nothing else for its softmax.
  const at::Tensor probabilities =
      logits.to(statistics.scalar_type()).sub(statistics.narrow(1, 0, 1)).exp().div(statistics.narrow(1, 1, 1));
  logits.copy_(probabilities.sub(one_hot_here(logits, targets, slice).to(statistics.scalar_type())).mul(scale));
}

}  // namespace llmtrain::kernels
