// SPDX-License-Identifier: Apache-2.0
#include "kernels/moe/load_importance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/special_ndtr.h>

#include <cmath>
#include <numbers>

#include "kernels/cuda_operators/moe/load_importance.h"

namespace llmtrain::kernels {
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

at::Tensor last_choices(const at::Tensor& experts) { return experts.narrow(1, experts.size(1) - 1, 1); }

}  // namespace

LoadImportanceTokens load_importance(const at::Tensor& logits, const at::Tensor& noisy, const at::Tensor& experts,
                                     double deviation) {
  if (has_cuda_load_importance(logits)) return cuda_load_importance(logits, noisy, experts, deviation);
  return {.kept = {logits, noisy.gather(1, last_choices(experts)), deviation}, .partials = {}};
}

at::Tensor with_load_importance(const at::Tensor& totals, const LoadImportanceTokens& tokens) {
  if (tokens.partials.defined()) return cuda_with_load_importance(totals, tokens.partials);
  const auto& [logits, thresholds, deviation] = tokens.kept;
  const at::Tensor importance = at::softmax(logits, 1).sum(0, false, at::kDouble);
  const at::Tensor load = at::special_ndtr((logits - thresholds) / deviation).sum(0, false, at::kDouble);
  return at::cat({totals, importance, load});
}

at::Tensor load_importance_loss(const at::Tensor& sums, const LoadImportance& kept, const at::Tensor& loss) {
  if (has_cuda_load_importance(kept.logits)) return cuda_load_importance_loss(sums, loss);
  loss.copy_((squared_variation(half(sums, 0)) + squared_variation(half(sums, 1))) / 2);
  return (at::cat({squared_variation_gradient(half(sums, 0)), squared_variation_gradient(half(sums, 1))}) / 2)
      .to(kept.logits.scalar_type());
}

void add_load_importance_gradient_(at::Tensor& dlogits, const LoadImportance& kept, const at::Tensor& slopes,
                                   const at::Tensor& experts, double scale) {
  const auto& [logits, thresholds, deviation] = kept;
  if (has_cuda_load_importance(logits)) return cuda_add_load_importance_gradient(dlogits, kept, slopes, experts, scale);
  const at::Tensor probabilities = at::softmax(logits, 1);
  at::Tensor gradient =
      at::_softmax_backward_data(half(slopes, 0).expand_as(logits), probabilities, 1, logits.scalar_type());
  // The density of the normal distribution is the slope of Φ.
  const double peak = 1 / (deviation * std::sqrt(2 * std::numbers::pi));
  const at::Tensor of_load =
      ((logits - thresholds) / deviation).square().mul_(-0.5).exp_().mul_(peak).mul_(half(slopes, 1));
  gradient.add_(of_load);
  // The threshold is one of the token's own logits.
  gradient.scatter_add_(1, last_choices(experts), -of_load.sum(1, true));
  dlogits.add_(gradient, scale);
}

}  // namespace llmtrain::kernels
