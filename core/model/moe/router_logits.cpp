// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/router_logits.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>

#include "core/model/moe/router_type.h"
#include "kernels/gemm.h"

namespace llmtrain {
namespace {

// As in Tutel's cosine router: the cosines are scaled by 2 at first and by no more than this.
constexpr double first_scale = 2, largest_scale = 100;
// Rows shorter than this keep a direction shorter than 1, in place of a division by 0.
constexpr double least_length = 1e-12;

// [rows, 1].
at::Tensor lengths_of(const at::Tensor& x) { return at::linalg_vector_norm(x, 2, {1}, true).clamp_min(least_length); }

// The gradient of rows from that of their directions: what points along a row does not turn it.
at::Tensor direction_backward(const at::Tensor& gradient, const at::Tensor& directions, const at::Tensor& lengths) {
  return (gradient - directions * (gradient * directions).sum(1, true)) / lengths;
}

}  // namespace

at::Tensor RouterLogits::scale() const {
  return (in_router_type(cosine_->temperature.weight()).exp() * first_scale).clamp_max(largest_scale);
}

at::Tensor RouterLogits::forward(const at::Tensor& x, Saved& saved) const {
  const at::Tensor weight = in_router_type(weight_.weight());
  if (!cosine_) return kernels::linear(in_router_type(x), weight, std::nullopt);
  const at::Tensor projected =
      kernels::linear(in_router_type(x), in_router_type(cosine_->projection.weight()), std::nullopt);
  saved.lengths = lengths_of(projected);
  saved.directions = projected / saved.lengths;
  return kernels::linear(saved.directions, weight / lengths_of(weight), std::nullopt) * scale();
}

at::Tensor RouterLogits::backward(const at::Tensor& dlogits, const at::Tensor& x, const Saved& saved) const {
  if (!cosine_) {
    weight_.add_weight_gradient(dlogits, in_router_type(x));
    return kernels::linear_backward_input(dlogits, in_router_type(weight_.weight()));
  }
  const at::Tensor dprojected =
      direction_backward(cosine_backward(dlogits, saved.directions), saved.directions, saved.lengths);
  cosine_->projection.add_weight_gradient(dprojected, in_router_type(x));
  return kernels::linear_backward_input(dprojected, in_router_type(cosine_->projection.weight()));
}

at::Tensor RouterLogits::cosine_backward(const at::Tensor& dlogits, const at::Tensor& directions) const {
  const at::Tensor weight = in_router_type(weight_.weight()), lengths = lengths_of(weight);
  const at::Tensor experts = weight / lengths, cosines = kernels::linear(directions, experts, std::nullopt);
  const at::Tensor dcosines = dlogits * scale();
  // The derivative of the scale is the scale itself, but at its bound.
  const at::Tensor grows = scale().lt(largest_scale);
  cosine_->temperature.added_gradient().add_((dcosines * cosines).sum() * grows);
  const at::Tensor dexperts = kernels::linear_backward_input(dcosines.t().contiguous(), directions);
  weight_.added_gradient().add_(direction_backward(dexperts, experts, lengths));
  return kernels::linear_backward_input(dcosines, experts);
}

}  // namespace llmtrain
