// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers.h"

#include "kernels/gemm.h"

namespace llmtrain {
namespace {

// Of a bias that was added to every row.
void add_bias_gradient(const at::Tensor& dy, const BoundParameter& bias) {
  auto dbias = bias.gradient();
  kernels::linear_backward_bias(dy, dbias.tensor, dbias.accumulation);
}

}  // namespace

NormLayer::NormLayer(NormKind kind, double eps, BoundParameter weight, std::optional<BoundParameter> bias)
    : mode_(kind == NormKind::layernorm ? kernels::NormMode::layer : kernels::NormMode::root_mean_square),
      eps_(eps),
      weight_(weight),
      bias_(bias) {}

kernels::NormParameters NormLayer::parameters() const {
  kernels::NormParameters parameters{mode_, weight_.weight(), std::nullopt, eps_};
  if (bias_) parameters.bias = bias_->weight();
  return parameters;
}

at::Tensor NormLayer::forward(const at::Tensor& x, Statistics& statistics) const {
  kernels::NormOutput output = kernels::norm_forward(x, parameters());
  statistics = {output.mean, output.rstd};
  return output.y;
}

at::Tensor NormLayer::recompute(const at::Tensor& x, const Statistics& statistics) const {
  return kernels::norm_recompute(x, statistics.mean, statistics.rstd, parameters());
}

void NormLayer::backward(const at::Tensor& dy, const at::Tensor& x, const Statistics& statistics,
                         at::Tensor& dx) const {
  // The norm's kernel only adds, so its gradients must start from zero.
  at::Tensor dweight = weight_.added_gradient();
  std::optional<at::Tensor> dbias;
  if (bias_) dbias = bias_->added_gradient();
  kernels::norm_backward(dy, x, statistics.mean, statistics.rstd, parameters(), dx, dweight, dbias);
}

at::Tensor LinearLayer::forward(const at::Tensor& x) const {
  std::optional<at::Tensor> bias;
  if (bias_) bias = bias_->weight();
  return kernels::linear(x, weight_.weight(), bias);
}

at::Tensor LinearLayer::backward(const at::Tensor& dy, const at::Tensor& x) const {
  auto dweight = weight_.gradient();
  kernels::linear_backward_weight(dy, x, dweight.tensor, dweight.accumulation);
  if (bias_) add_bias_gradient(dy, *bias_);
  return kernels::linear_backward_input(dy, weight_.weight());
}

// Gathering rows and summing them are each other's gradient, hence the pairs in these four functions.
at::Tensor ColumnLinear::forward(const at::Tensor& x) const { return linear_.forward(split_.whole_rows(x)); }

at::Tensor ColumnLinear::backward(const at::Tensor& dy, const at::Tensor& x) const {
  return split_.own_sum(linear_.backward(dy, split_.whole_rows(x)));
}

RowLinear::RowLinear(BoundParameter weight, std::optional<BoundParameter> bias, const TensorSplit& split)
    // With several ranks the bias must be added after the sum, or it would be added once per rank.
    : split_(split), linear_(weight, split.ranks() > 1 ? std::nullopt : bias) {
  if (split.ranks() > 1) late_bias_ = bias;
}

at::Tensor RowLinear::forward(const at::Tensor& x) const {
  at::Tensor y = split_.own_sum(linear_.forward(x));
  if (late_bias_) y.add_(late_bias_->weight());
  return y;
}

at::Tensor RowLinear::backward(const at::Tensor& dy, const at::Tensor& x) const {
  // From this rank's rows. Where rows are split, the ranks' gradients are summed once per step (gradient_sum()).
  if (late_bias_) add_bias_gradient(dy, *late_bias_);
  return linear_.backward(split_.whole_rows(dy), x);
}

}  // namespace llmtrain
