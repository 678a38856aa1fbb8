// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/grouped_linear.h"

#include "kernels/moe/grouped_products.h"

namespace llmtrain {

using kernels::Fp8Format;

// As products of the compute type take them, [E, out, in]; makes their scales where these are undefined.
at::Tensor GroupedLinear::weights(at::Tensor& scales) const {
  at::Tensor weights = weight_.weight();
  if (!scaling_ || weight_.is_fp8()) return weights;
  if (!scales.defined()) scales = scaling_->scales(weights.flatten(1), Fp8Format::e4m3, RowScaling::Columns::split);
  // Those that are stored with a scale are a copy already.
  if (!weight_.is_scaled()) weights = weights.clone();
  RowScaling::round_in_place(weights.flatten(1), scales, Fp8Format::e4m3);
  return weights;
}

// In E4M3, likewise. Of those that are stored so nothing is rounded: an expert's scale is no less than all experts'.
at::Tensor GroupedLinear::fp8_weights(at::Tensor& scales) const {
  const at::Tensor weights = weight_.weight();
  if (!scales.defined()) scales = scaling_->scales(weights.flatten(1), Fp8Format::e4m3, RowScaling::Columns::split);
  return RowScaling::cast(weights.flatten(1), scales, Fp8Format::e4m3).values.view(weights.sizes());
}

std::optional<at::Tensor> GroupedLinear::biases() const {
  const bool adds = bias_ && (summed_ == nullptr || summed_->position() == 0);
  return adds ? std::optional(bias_->weight()) : std::nullopt;
}

bool GroupedLinear::needs_offsets(const at::Device& device) const {
  return !device.is_cpu() && !kernels::run_together(compute_type(), device, inputs(), outputs());
}

ScaledRows GroupedLinear::operand(const ScaledRows& x) const {
  const at::Device device = x.values.device();
  if (x.scales.defined() && kernels::scaled_run_together(compute_type(), device, inputs(), outputs())) return x;
  return {x.widened(compute_type()), {}};
}

at::Tensor GroupedLinear::forward(const ScaledRows& x, const kernels::ExpertRows& map,
                                  at::Tensor& weight_scales) const {
  if (!x.scales.defined()) return kernels::grouped_linear(x.values, weights(weight_scales), biases(), map);
  const at::Tensor weights = fp8_weights(weight_scales);
  return kernels::grouped_scaled_linear(x.values, x.scales, weights, weight_scales, biases(), map);
}

void GroupedLinear::forward_into(const ScaledRows& x, const kernels::ExpertRows& map, const at::Tensor& y,
                                 at::Tensor& weight_scales) const {
  if (x.scales.defined()) {
    y.copy_(forward(x, map, weight_scales));
  } else {
    kernels::grouped_linear_into(x.values, weights(weight_scales), biases(), map, y);
  }
}

void GroupedLinear::backward_weight(const at::Tensor& dy, const at::Tensor& x, const kernels::ExpertRows& map) const {
  if (weight_.is_frozen()) return;
  // All experts are written, also those without rows: what the memory held before is no gradient.
  const auto dweights = weight_.gradient();
  kernels::grouped_backward_weight(dy, x, map, dweights.tensor, dweights.accumulation);
}

void GroupedLinear::backward_bias(const at::Tensor& dy, const kernels::ExpertRows& map) const {
  if (!bias_ || bias_->is_frozen()) return;
  const auto dbiases = bias_->gradient();
  kernels::grouped_backward_bias(dy, map, dbiases.tensor, dbiases.accumulation);
}

at::Tensor GroupedLinear::backward_input(const at::Tensor& dy, const kernels::ExpertRows& map,
                                         at::Tensor weight_scales) const {
  return kernels::grouped_backward_input(dy, weights(weight_scales), map);
}

void GroupedLinear::add_backward_input(const at::Tensor& dy, const kernels::ExpertRows& map, const at::Tensor& dx,
                                       at::Tensor weight_scales) const {
  kernels::grouped_add_backward_input(dy, weights(weight_scales), map, dx);
}

}  // namespace llmtrain
