// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/grouped_linear.h"

#include "kernels/gemm.h"

namespace llmtrain {
namespace {

at::Tensor rows_of(const at::Tensor& x, const kernels::ExpertRows& map, std::int64_t expert) {
  return x.narrow(0, map.offsets[static_cast<std::size_t>(expert)], map.rows_of(expert));
}

}  // namespace

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

void GroupedLinear::forward(const at::Tensor& x, const kernels::ExpertRows& map, const at::Tensor& y,
                            at::Tensor& weight_scales) const {
  const at::Tensor weights = this->weights(weight_scales);
  const at::Tensor biases = adds_bias() ? bias_->weight() : at::Tensor();
  for (std::int64_t expert = 0; expert < map.experts(); ++expert) {
    std::optional<at::Tensor> bias;
    if (biases.defined()) bias = biases[expert];
    kernels::group_linear(rows_of(x, map, expert), weights[expert], bias, rows_of(y, map, expert));
  }
}

void GroupedLinear::backward_weight(const at::Tensor& dy, const at::Tensor& x, const kernels::ExpertRows& map) const {
  if (weight_.is_frozen()) return;
  // All experts are written, also those without rows: what the memory held before is no gradient.
  const auto dweights = weight_.gradient();
  for (std::int64_t expert = 0; expert < map.experts(); ++expert)
    kernels::group_backward_weight(rows_of(dy, map, expert), rows_of(x, map, expert), dweights.tensor[expert],
                                   dweights.accumulation);
}

void GroupedLinear::backward_bias(const at::Tensor& dy, const kernels::ExpertRows& map) const {
  if (!bias_ || bias_->is_frozen()) return;
  const auto dbiases = bias_->gradient();
  for (std::int64_t expert = 0; expert < map.experts(); ++expert) {
    at::Tensor dbias = dbiases.tensor[expert];
    kernels::linear_backward_bias(rows_of(dy, map, expert), dbias, dbiases.accumulation);
  }
}

void GroupedLinear::backward_input(const at::Tensor& dy, const kernels::ExpertRows& map, const at::Tensor& dx,
                                   kernels::Accumulation accumulation, at::Tensor weight_scales) const {
  const at::Tensor weights = this->weights(weight_scales);
  for (std::int64_t expert = 0; expert < map.experts(); ++expert)
    kernels::group_backward_input(rows_of(dy, map, expert), weights[expert], rows_of(dx, map, expert), accumulation);
}

}  // namespace llmtrain
