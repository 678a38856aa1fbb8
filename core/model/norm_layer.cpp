// SPDX-License-Identifier: Apache-2.0
#include "core/model/norm_layer.h"

namespace llmtrain {

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

}  // namespace llmtrain
