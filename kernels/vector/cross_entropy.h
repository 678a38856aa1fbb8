// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// Of a row, or of the columns of it that are here.
struct CrossEntropyStatistics {
  float maximum;       // −∞ where there are no columns
  float sum;           // Σ exp(logit − maximum)
  float target_logit;  // 0 where the target is not among the columns
};

// One row of logits: returns its loss. With the gradient, the row becomes scale·(softmax − one_hot(target)). Where only
// some columns are here, a target outside [0, columns) is among the others, and the gradient takes the whole row's
// statistics.
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
