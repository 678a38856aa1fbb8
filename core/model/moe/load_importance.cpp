// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/load_importance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/special_ndtr.h>

#include <cmath>
#include <numbers>

namespace llmtrain {
namespace {

at::Tensor squared_variation(const at::Tensor& values) {
  const at::Tensor mean = values.mean();
  return (values - mean).square().mean() / mean.square();
}

// d(var ÷ mean²) ÷ dx_e = 2 ÷ (E · mean) · ((x_e − mean) ÷ mean − var ÷ mean²).
at::Tensor squared_variation_gradient(const at::Tensor& values) {
  const at::Tensor mean = values.mean();
  const at::Tensor scale = 2 / (static_cast<double>(values.numel()) * mean);
  return scale * ((values - mean) / mean - squared_variation(values));
}

at::Tensor half(const at::Tensor& sums, std::int64_t index) {
  const std::int64_t experts = sums.numel() / 2;
  return sums.narrow(0, index * experts, experts);
}

}  // namespace

at::Tensor LoadImportance::sums() const {
  const at::Tensor importance = at::softmax(logits, 1).sum(0, false, at::kDouble);
  const at::Tensor load = at::special_ndtr((logits - thresholds) / deviation).sum(0, false, at::kDouble);
  return at::cat({importance, load});
}

at::Tensor LoadImportance::loss(const at::Tensor& sums) {
  return (squared_variation(half(sums, 0)) + squared_variation(half(sums, 1))) / 2;
}

at::Tensor LoadImportance::gradient(const at::Tensor& sums, const at::Tensor& last) const {
  const auto type = logits.scalar_type();
  const at::Tensor of_importance = (squared_variation_gradient(half(sums, 0)) / 2).to(type);
  const at::Tensor of_load = (squared_variation_gradient(half(sums, 1)) / 2).to(type);
  const at::Tensor probabilities = at::softmax(logits, 1);
  at::Tensor gradient = at::_softmax_backward_data(of_importance.expand_as(logits), probabilities, 1, type);
  // The density of the normal distribution is the slope of Φ.
  const double peak = 1 / (deviation * std::sqrt(2 * std::numbers::pi));
  const at::Tensor slopes = ((logits - thresholds) / deviation).square().mul_(-0.5).exp_().mul_(peak).mul_(of_load);
  gradient.add_(slopes);
  // The threshold is one of the token's own logits.
  return gradient.scatter_add_(1, last, -slopes.sum(1, true));
}

}  // namespace llmtrain
