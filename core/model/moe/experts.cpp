// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/experts.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace llmtrain {

using kernels::Accumulation;

Experts::Experts(std::optional<GroupedLinear> gate, GroupedLinear up, GroupedLinear down,
                 kernels::ActivationKind activation, Recompute recompute)
    : width_(up.outputs()),
      activation_(activation),
      keeps_activated_(recompute == Recompute::none),
      gate_(gate),
      up_(up),
      down_(down) {}

at::Tensor Experts::forward(const at::Tensor& rows, const kernels::ExpertRows& map, Saved& saved) const {
  saved.hidden = at::empty({rows.size(0), gate_ ? 2 * width_ : width_}, rows.options());
  if (gate_) gate_->forward(rows, map, gate_columns(saved.hidden));
  up_.forward(rows, map, up_columns(saved.hidden));
  const at::Tensor activated = kernels::activation_forward(saved.hidden, activation_);
  if (keeps_activated_) saved.activated = activated;
  at::Tensor y = at::empty({rows.size(0), down_.outputs()}, rows.options());
  down_.forward(activated, map, y);
  return y;
}

at::Tensor Experts::backward(const at::Tensor& dy, const at::Tensor& rows, const kernels::ExpertRows& map,
                             Saved& saved) const {
  if (!saved.activated.defined()) saved.activated = kernels::activation_forward(saved.hidden, activation_);
  down_.backward_parameters(dy, saved.activated, map);
  at::Tensor dactivated = at::empty_like(saved.activated);
  down_.backward_input(dy, map, dactivated, Accumulation::overwrite);
  // Tensors are released as soon as they are used up, which lowers the peak of the backward.
  saved.activated.reset();
  const at::Tensor dhidden = kernels::activation_backward(dactivated, saved.hidden, activation_);
  dactivated.reset();
  saved = {};
  if (gate_) gate_->backward_parameters(gate_columns(dhidden), rows, map);
  up_.backward_parameters(up_columns(dhidden), rows, map);
  at::Tensor drows = at::empty_like(rows);
  up_.backward_input(up_columns(dhidden), map, drows, Accumulation::overwrite);
  if (gate_) gate_->backward_input(gate_columns(dhidden), map, drows, Accumulation::add);
  return drows;
}

}  // namespace llmtrain
