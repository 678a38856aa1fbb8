// SPDX-License-Identifier: Apache-2.0
#include "core/model/feed_forward.h"

namespace llmtrain {
namespace {

using Role = ParameterRole;
using kernels::ActivationKind;

ActivationKind activation_kind(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return ActivationKind::gelu;
    case Activation::gelu_tanh:
      return ActivationKind::gelu_tanh;
    case Activation::swiglu:
      break;
  }
  return ActivationKind::swiglu;
}

// Gate and up are adjacent parameters: for swiglu one product makes both.
ColumnLinear up_projection(const BlockParameters& parameters) {
  const bool gated = parameters.model().activation == Activation::swiglu;
  return parameters.column_linear(gated ? Role::ffn_gate_weight : Role::ffn_up_weight, Role::ffn_up_weight,
                                  gated ? Role::ffn_gate_bias : Role::ffn_up_bias, Role::ffn_up_bias);
}

}  // namespace

FeedForward::FeedForward(const BlockParameters& parameters, Recompute recompute)
    : activation_(activation_kind(parameters.model().activation)),
      keeps_activated_(recompute == Recompute::none),
      up_(up_projection(parameters)),
      down_(parameters.row_linear(Role::ffn_down_weight, Role::ffn_down_bias)) {}

at::Tensor FeedForward::forward(const at::Tensor& x, Saved& saved) const {
  saved.hidden = up_.forward(x);
  const at::Tensor activated = kernels::activation_forward(saved.hidden, activation_);
  // Selective recompute drops this and keeps `hidden`, from which one elementwise pass makes it again.
  if (keeps_activated_) saved.activated = activated;
  return down_.forward(activated);
}

at::Tensor FeedForward::backward(const at::Tensor& dy, const at::Tensor& x, Saved& saved) const {
  if (!saved.activated.defined()) saved.activated = kernels::activation_forward(saved.hidden, activation_);
  at::Tensor dactivated = down_.backward(dy, saved.activated);
  // Tensors are released as soon as they are used up, which lowers the peak of the backward.
  saved.activated.reset();
  const at::Tensor dhidden = kernels::activation_backward(dactivated, saved.hidden, activation_);
  dactivated.reset();
  saved = {};
  return up_.backward(dhidden, x);
}

}  // namespace llmtrain
