// SPDX-License-Identifier: Apache-2.0
#include "core/model/norm_layer.h"

namespace llmtrain {

NormLayer::NormLayer(ParameterStore& store, NormKind kind, double eps, std::size_t weight,
                     std::optional<std::size_t> bias)
    : store_(store),
      mode_(kind == NormKind::layernorm ? kernels::NormMode::layer : kernels::NormMode::root_mean_square),
      eps_(eps),
      weight_(weight),
      bias_(bias) {}

kernels::NormParameters NormLayer::parameters() const {
  kernels::NormParameters parameters{mode_, store_.weight(weight_), std::nullopt, eps_};
  if (bias_) parameters.bias = store_.weight(*bias_);
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
  at::Tensor dweight = store_.added_gradient(weight_);
  std::optional<at::Tensor> dbias;
  if (bias_) dbias = store_.added_gradient(*bias_);
  kernels::norm_backward(dy, x, statistics.mean, statistics.rstd, parameters(), dx, dweight, dbias);
}

}  // namespace llmtrain
