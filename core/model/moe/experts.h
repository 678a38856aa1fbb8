// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/model/moe/grouped_linear.h"
#include "core/model/moe/row_scaling.h"
#include "core/recipe/recipe.h"
#include "kernels/activation.h"
#include "kernels/moe/expert_rows.h"

namespace llmtrain {

// The feed-forward networks of the routed experts: up (and gate), activation, down, each over its expert's rows.
class Experts {
 public:
  // Scales of the weights that the products take in FP8: made by a forward where they are undefined.
  struct WeightScales {
    at::Tensor gate, up, down;
  };

  struct Saved {
    // The activation's input [rows, F], or [rows, 2F] gate and up of what has a gate. On a GPU gate lies apart, as its
    // product makes it.
    at::Tensor hidden, gate;
    ScaledRows activated;  // [rows, F]; its values are undefined when the backward recomputes them
    WeightScales scales;

    void visit(const KeptTensorVisitor& visit) {
      visit_all(visit, {&hidden, &gate, &scales.gate, &scales.up, &scales.down});
      activated.visit(visit);
    }
  };

  // `gate` where the activation has one. With scaling the three products multiply FP8 numbers as in LinearLayer.
  Experts(std::optional<GroupedLinear> gate, GroupedLinear up, GroupedLinear down, kernels::ActivationKind activation,
          Recompute recompute, const std::optional<RowScaling>& scaling);

  // Whether forward and backward on this device need maps with offsets.
  bool needs_offsets(const at::Device& device) const;

  // rows [R, H] as the products take them.
  ScaledRows keep(const at::Tensor& rows) const;

  at::Tensor forward(const ScaledRows& rows, const kernels::ExpertRows& map, Saved& saved) const;  // [R, H]
  // `rows` is the forward's input; returns its gradient. Leaves `saved` empty, and with scaling dy rounded.
  at::Tensor backward(const at::Tensor& dy, const ScaledRows& rows, const kernels::ExpertRows& map, Saved& saved) const;

 private:
  using Columns = RowScaling::Columns;
  void project(const ScaledRows& x, const kernels::ExpertRows& map, Saved& saved) const;
  // The activation of what is saved, with new scales or those that it had.
  ScaledRows activate(const Saved& saved, const at::Tensor& scales) const;
  // The gradients of what is saved; of the gate undefined without one.
  kernels::GateAndUp activation_gradients(const at::Tensor& dactivated, const Saved& saved) const;
  // A gradient becomes what the products take.
  void round_gradient(const at::Tensor& gradient, Columns columns) const;
  at::Tensor backward_activated(const at::Tensor& dy, const kernels::ExpertRows& map, Saved& saved) const;

  std::int64_t width() const { return up_.outputs(); }  // of one expert here, which may change between steps
  // The columns of `hidden` that a projection writes: gate first, then up.
  at::Tensor gate_columns(const at::Tensor& hidden) const { return hidden.narrow(1, 0, width()); }
  at::Tensor up_columns(const at::Tensor& hidden) const { return hidden.narrow(1, gate_ ? width() : 0, width()); }

  kernels::ActivationKind activation_;
  bool keeps_activated_;
  std::optional<GroupedLinear> gate_;
  GroupedLinear up_, down_;
  std::optional<RowScaling> scaling_;
};

}  // namespace llmtrain
