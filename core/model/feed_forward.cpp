// SPDX-License-Identifier: Apache-2.0
#include "core/model/feed_forward.h"

#include <utility>

namespace llmtrain {
namespace {

// One product makes gate and up.
ColumnLinear up_projection(const BlockParameters& parameters, Activation activation, const std::string& network) {
  return parameters.column_linear(network + (is_gated(activation) ? ".gate" : ".up"));
}

}  // namespace

kernels::ActivationKind activation_kind(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return kernels::ActivationKind::gelu;
    case Activation::gelu_tanh:
      return kernels::ActivationKind::gelu_tanh;
    case Activation::relu:
      return kernels::ActivationKind::relu;
    case Activation::squared_relu:
      return kernels::ActivationKind::squared_relu;
    case Activation::swiglu:
      return kernels::ActivationKind::swiglu;
    case Activation::geglu:
      return kernels::ActivationKind::geglu;
    case Activation::geglu_tanh:
      return kernels::ActivationKind::geglu_tanh;
    case Activation::clamped_swiglu:
      break;
  }
  return kernels::ActivationKind::clamped_swiglu;
}

FeedForward::FeedForward(const BlockParameters& parameters, Activation activation, const std::string& name,
                         Recompute recompute)
    : activation_(activation_kind(activation)),
      keeps_activated_(recompute == Recompute::none),
      up_(up_projection(parameters, activation, name)),
      down_(parameters.row_linear(name + ".down")) {}

at::Tensor FeedForward::forward(at::Tensor x, const Sequences& rows, const PassContext& pass, Saved& saved) const {
  saved.input = up_.keep(x, pass);
  x.reset();  // in FP8 it is kept as a copy of a byte per element
  saved.hidden = up_.forward(saved.input, rows, pass);
  saved.activated = down_.keep(kernels::activation_forward(saved.hidden, activation_), pass);
  at::Tensor y = down_.forward(saved.activated, rows, pass);
  // Selective recompute drops this and keeps `hidden`, from which one elementwise pass makes it again.
  if (!keeps_activated_) saved.activated.release();
  return y;
}

at::Tensor FeedForward::backward(const at::Tensor& dy, const Sequences& rows, const PassContext& pass,
                                 Saved& saved) const {
  if (!keeps_activated_) LinearLayer::restore(saved.activated, kernels::activation_forward(saved.hidden, activation_));
  at::Tensor dactivated = down_.backward(dy, saved.activated, rows, pass);
  // Tensors are released as soon as they are used up, which lowers the peak of the backward.
  saved.activated = {};
  const at::Tensor dhidden = hidden_gradient(dactivated, saved.hidden);
  dactivated.reset();
  const LinearInput input = std::move(saved.input);
  saved = {};
  return up_.backward_without_bias(dhidden, input, rows, pass);
}

at::Tensor FeedForward::hidden_gradient(const at::Tensor& dactivated, const at::Tensor& hidden) const {
  auto bias = up_.bias_gradient();
  if (!bias) return kernels::activation_backward(dactivated, hidden, activation_);
  return kernels::activation_bias_backward(dactivated, hidden, activation_, bias->tensor, bias->accumulation);
}

}  // namespace llmtrain
