// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/model/moe/grouped_linear.h"
#include "core/recipe/recipe.h"
#include "kernels/activation.h"
#include "kernels/moe/expert_rows.h"

namespace llmtrain {

// The feed-forward networks of the routed experts: up (and gate), activation, down, each over its expert's rows.
class Experts {
 public:
  struct Saved {
    at::Tensor hidden;     // [rows, F], or [rows, 2F] gate and up for swiglu: the activation's input
    at::Tensor activated;  // [rows, F]; undefined when the backward recomputes it
  };

  // `gate` for swiglu alone.
  Experts(std::optional<GroupedLinear> gate, GroupedLinear up, GroupedLinear down, kernels::ActivationKind activation,
          Recompute recompute);

  at::Tensor forward(const at::Tensor& rows, const kernels::ExpertRows& map, Saved& saved) const;  // [rows, H]
  // `rows` is the forward's input; returns its gradient. Leaves `saved` empty.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& rows, const kernels::ExpertRows& map, Saved& saved) const;

 private:
  // The columns of `hidden` that a projection writes: gate first, then up.
  at::Tensor gate_columns(const at::Tensor& hidden) const { return hidden.narrow(1, 0, width_); }
  at::Tensor up_columns(const at::Tensor& hidden) const { return hidden.narrow(1, gate_ ? width_ : 0, width_); }

  std::int64_t width_;  // of one expert
  kernels::ActivationKind activation_;
  bool keeps_activated_;
  std::optional<GroupedLinear> gate_;
  GroupedLinear up_, down_;
};

}  // namespace llmtrain
