// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/grouped_linear.h"

#include "kernels/moe/grouped_products.h"

namespace llmtrain {

// As the products take them, [E, out, in]; makes their scales where these are undefined.
at::Tensor GroupedLinear::weights(at::Tensor& scales) const {
  using kernels::Fp8Format;
  at::Tensor weights = weight_.weight();
  if (!scaling_ || weight_.is_fp8()) return weights;
  if (!scales.defined()) scales = scaling_->scales(weights.flatten(1), Fp8Format::e4m3, RowScaling::Columns::split);
  // Those that are stored with a scale are a copy already.
  if (!weight_.is_scaled()) weights = weights.clone();
  RowScaling::round_in_place(weights.flatten(1), scales, Fp8Format::e4m3);
  return weights;
}

std::optional<at::Tensor> GroupedLinear::biases() const {
  const bool adds = bias_ && (summed_ == nullptr || summed_->position() == 0);
  return adds ? std::optional(bias_->weight()) : std::nullopt;
}

bool GroupedLinear::needs_offsets(const at::Device& device) const {
  const auto& shape = weight_.part().shape;
  return !device.is_cpu() && !kernels::run_together(compute_type(), device, shape[2], shape[1]);
}

at::Tensor GroupedLinear::forward(const at::Tensor& x, const kernels::ExpertRows& map,
                                  at::Tensor& weight_scales) const {
  return kernels::grouped_linear(x, weights(weight_scales), biases(), map);
}

void GroupedLinear::forward_into(const at::Tensor& x, const kernels::ExpertRows& map, const at::Tensor& y,
                                 at::Tensor& weight_scales) const {
  kernels::grouped_linear_into(x, weights(weight_scales), biases(), map, y);
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
