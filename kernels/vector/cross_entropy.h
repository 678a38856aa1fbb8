// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// Statistics of a row, or of those of its columns that this rank holds.
struct CrossEntropyStatistics {
  float maximum;       // −∞ where there are no columns
  float sum;           // Σ exp(logit − maximum)
  float target_logit;  // 0 where the target is not among the columns
};

// One row of logits: returns its loss. With the gradient, the row becomes scale·(softmax − one_hot(target)). On a slice
// of the vocabulary a target outside [0, columns) belongs to another slice, and the gradient needs the statistics of
// the whole row.
template <class Value>
struct CrossEntropyRow {
  float (*loss)(const Value* logits, std::int64_t columns, std::int64_t target);
  float (*loss_and_gradient)(Value* logits, std::int64_t columns, std::int64_t target, float scale);
  CrossEntropyStatistics (*statistics)(const Value* logits, std::int64_t columns, std::int64_t target);
  void (*gradient)(Value* logits, std::int64_t columns, std::int64_t target, const CrossEntropyStatistics& whole,
                   float scale);
};

struct CrossEntropyKernels {
  CrossEntropyRow<float> fp32;
  CrossEntropyRow<std::uint16_t> bf16;
};

template <int level>
CrossEntropyKernels cross_entropy_kernels_for();

}  // namespace llmtrain::kernels::vector
