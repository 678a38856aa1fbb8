// SPDX-License-Identifier: Apache-2.0
#include "core/model/linear_layer.h"

#include "kernels/gemm.h"

namespace llmtrain {

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

void add_bias_gradient(const at::Tensor& dy, const BoundParameter& bias) {
  auto dbias = bias.gradient();
  kernels::linear_backward_bias(dy, dbias.tensor, dbias.accumulation);
}

}  // namespace llmtrain
