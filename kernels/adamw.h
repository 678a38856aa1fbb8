// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace llmtrain::kernels {

// AdamW (Loshchilov and Hutter, arXiv 1711.05101) with PyTorch's order of operations.
struct AdamwStep {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;  // multiplies every gradient first: the clipping coefficient
  std::int64_t step = 1;      // counts from 1, for the bias corrections
};

struct AdamwState {
  at::Tensor weights;  // [n] fp32 (float64 in tests): the master copy
  at::Tensor m;        // [n], as weights
  at::Tensor v;        // [n], as weights
};

// One pass over flat, contiguous memory; updates the state in place. `gradients` [n] is of any float dtype.
// `compute_weights` [n], when given, receives the rounded new weights.
void adamw_(AdamwState& state, const at::Tensor& gradients, const AdamwStep& step,
            const std::optional<at::Tensor>& compute_weights);

}  // namespace llmtrain::kernels
