// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "core/model/layers/block_parameters.h"
#include "core/recipe/recipe.h"
#include "kernels/activation.h"

namespace llmtrain {

// What the kernels call an activation of the recipe.
kernels::ActivationKind activation_kind(Activation activation);

// A feed-forward network for all tokens: up (and gate), activation, down. That of a dense layer, or the shared experts,
// as one network as wide as all of them.
class FeedForward {
 public:
  struct Saved {
    // F: this rank's features; T: all rows.
    LinearInput input;      // of the up projection; its values are released where the backward makes them again
    at::Tensor hidden;      // [T, F], or [T, 2F] gate and up of what has a gate: the activation's input
    LinearInput activated;  // [T, F]; likewise

    void visit(const KeptTensorVisitor& visit) {
      input.visit(visit);
      visit(hidden);
      activated.visit(visit);
    }
  };

  // `name`: of its parameters within the block, "ffn".
  FeedForward(const BlockParameters& parameters, Activation activation, const std::string& name, Recompute recompute);

  // This rank's rows: [R, H] → [R, H].
  at::Tensor forward(at::Tensor x, const Sequences& rows, const PassContext& pass, Saved& saved) const;
  // Returns the gradient of the forward's input. Leaves `saved` empty.
  at::Tensor backward(const at::Tensor& dy, const Sequences& rows, const PassContext& pass, Saved& saved) const;

 private:
  // Adds to the gradient of the up projection's bias as well.
  at::Tensor hidden_gradient(const at::Tensor& dactivated, const at::Tensor& hidden) const;

  kernels::ActivationKind activation_;
  bool keeps_activated_;
  ColumnLinear up_;
  RowLinear down_;
};

}  // namespace llmtrain
