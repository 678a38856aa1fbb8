// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// One row of logits: returns its loss. With the gradient, the row becomes scale·(softmax − one_hot(target)).
template <class Value>
struct CrossEntropyRow {
  float (*loss)(const Value* logits, std::int64_t columns, std::int64_t target);
  float (*loss_and_gradient)(Value* logits, std::int64_t columns, std::int64_t target, float scale);
};

struct CrossEntropyKernels {
  CrossEntropyRow<float> fp32;
  CrossEntropyRow<std::uint16_t> bf16;
};

template <int level>
CrossEntropyKernels cross_entropy_kernels_for();

}  // namespace llmtrain::kernels::vector
