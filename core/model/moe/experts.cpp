// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/experts.h"

#include <ATen/ops/empty.h>

namespace llmtrain {

using kernels::Fp8Format;

Experts::Experts(std::optional<GroupedLinear> gate, GroupedLinear up, GroupedLinear down,
                 kernels::ActivationKind activation, Recompute recompute, const std::optional<RowScaling>& scaling)
    : activation_(activation),
      keeps_activated_(recompute == Recompute::none),
      gate_(gate),
      up_(up),
      down_(down),
      scaling_(scaling) {}

bool Experts::needs_offsets(const at::Device& device) const {
  return up_.needs_offsets(device) || down_.needs_offsets(device);
}

ScaledRows Experts::keep(const at::Tensor& rows) const {
  if (!scaling_) return {rows, {}};
  return RowScaling::cast(rows, scaling_->scales(rows, Fp8Format::e4m3, Columns::whole), Fp8Format::e4m3);
}

ScaledRows Experts::activate(const Saved& saved, const at::Tensor& scales) const {
  const at::Tensor activated = saved.gate.defined() ? kernels::gated_forward({saved.gate, saved.hidden}, activation_)
                                                    : kernels::activation_forward(saved.hidden, activation_);
  if (!scaling_) return {activated, {}};
  const at::Tensor own = scales.defined() ? scales : scaling_->scales(activated, Fp8Format::e4m3, Columns::split);
  return RowScaling::cast(activated, own, Fp8Format::e4m3);
}

void Experts::round_gradient(const at::Tensor& gradient, Columns columns) const {
  if (scaling_)
    RowScaling::round_in_place(gradient, scaling_->scales(gradient, Fp8Format::e5m2, columns), Fp8Format::e5m2);
}

void Experts::project(const ScaledRows& x, const kernels::ExpertRows& map, Saved& saved) const {
  if (!x.values.is_cpu()) {
    // Products there make results of their own, which would have to be copied into columns.
    if (gate_) saved.gate = gate_->forward(x, map, saved.scales.gate);
    saved.hidden = up_.forward(x, map, saved.scales.up);
    return;
  }
  const auto options = x.values.options().dtype(up_.compute_type());
  saved.hidden = at::empty({x.values.size(0), gate_ ? 2 * width() : width()}, options);
  if (gate_) gate_->forward_into(x, map, gate_columns(saved.hidden), saved.scales.gate);
  up_.forward_into(x, map, up_columns(saved.hidden), saved.scales.up);
}

at::Tensor Experts::forward(const ScaledRows& rows, const kernels::ExpertRows& map, Saved& saved) const {
  project(up_.operand(rows), map, saved);
  const ScaledRows activated = activate(saved, {});
  saved.activated.scales = activated.scales;
  if (keeps_activated_) saved.activated.values = activated.values;
  return down_.forward(down_.operand(activated), map, saved.scales.down);
}

// The gradient of the activation's output; releases what it was made of.
at::Tensor Experts::backward_activated(const at::Tensor& dy, const kernels::ExpertRows& map, Saved& saved) const {
  down_.backward_bias(dy, map);
  if (!saved.activated.values.defined()) saved.activated = activate(saved, saved.activated.scales);
  round_gradient(dy, Columns::whole);
  down_.backward_weight(dy, saved.activated.widened(down_.compute_type()), map);
  at::Tensor dactivated = down_.backward_input(dy, map, saved.scales.down);
  // Tensors are released as soon as they are used up, which lowers the peak of the backward.
  saved.activated = {};
  return dactivated;
}

kernels::GateAndUp Experts::activation_gradients(const at::Tensor& dactivated, const Saved& saved) const {
  if (saved.gate.defined()) return kernels::gated_backward(dactivated, {saved.gate, saved.hidden}, activation_);
  const at::Tensor dhidden = kernels::activation_backward(dactivated, saved.hidden, activation_);
  return {gate_ ? gate_columns(dhidden) : at::Tensor(), up_columns(dhidden)};
}

at::Tensor Experts::backward(const at::Tensor& dy, const ScaledRows& rows, const kernels::ExpertRows& map,
                             Saved& saved) const {
  at::Tensor dactivated = backward_activated(dy, map, saved);
  const auto [dgate, dup] = activation_gradients(dactivated, saved);
  dactivated.reset();
  const WeightScales scales = saved.scales;
  saved = {};
  if (gate_) gate_->backward_bias(dgate, map);
  up_.backward_bias(dup, map);
  if (gate_) round_gradient(dgate, Columns::split);
  round_gradient(dup, Columns::split);
  {
    const at::Tensor x = rows.widened(up_.compute_type());
    if (gate_) gate_->backward_weight(dgate, x, map);
    up_.backward_weight(dup, x, map);
  }
  at::Tensor drows = up_.backward_input(dup, map, scales.up);
  if (gate_) gate_->add_backward_input(dgate, map, drows, scales.gate);
  return drows;
}

}  // namespace llmtrain
