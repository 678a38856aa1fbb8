// SPDX-License-Identifier: Apache-2.0
#include "core/model/linear_layer.h"

#include "kernels/gemm.h"

namespace llmtrain {

LinearLayer::LinearLayer(ParameterStore& store, Group weight, std::optional<Group> bias)
    : store_(store), weight_(weight), bias_(bias) {}

at::Tensor LinearLayer::forward(const at::Tensor& x) const {
  std::optional<at::Tensor> bias;
  if (bias_) bias = store_.fused_weight(bias_->first, bias_->last);
  return kernels::linear(x, store_.fused_weight(weight_.first, weight_.last), bias);
}

at::Tensor LinearLayer::backward(const at::Tensor& dy, const at::Tensor& x) const {
  auto dweight = store_.fused_gradient(weight_.first, weight_.last);
  kernels::linear_backward_weight(dy, x, dweight.tensor, dweight.accumulation);
  if (bias_) {
    auto dbias = store_.fused_gradient(bias_->first, bias_->last);
    kernels::linear_backward_bias(dy, dbias.tensor, dbias.accumulation);
  }
  return kernels::linear_backward_input(dy, store_.fused_weight(weight_.first, weight_.last));
}

}  // namespace llmtrain
