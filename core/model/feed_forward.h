// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "core/model/block_parameters.h"
#include "core/recipe/recipe.h"
#include "kernels/activation.h"

namespace llmtrain {

// The dense feed-forward network of a layer: up (and gate), activation, down.
class FeedForward {
 public:
  struct Saved {
    // F: this rank's features; T: all rows.
    at::Tensor hidden;     // [T, F], or [T, 2F] gate and up for swiglu: the activation's input
    at::Tensor activated;  // [T, F]; undefined when the backward recomputes it
  };

  FeedForward(const BlockParameters& parameters, Recompute recompute);

  at::Tensor forward(const at::Tensor& x, Saved& saved) const;  // this rank's rows: [R, H] → [R, H]
  // x is the forward's input; returns its gradient. Leaves `saved` empty.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& x, Saved& saved) const;

 private:
  kernels::ActivationKind activation_;
  bool keeps_activated_;
  ColumnLinear up_;
  RowLinear down_;
};

}  // namespace llmtrain
