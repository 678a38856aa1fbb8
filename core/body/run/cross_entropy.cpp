// SPDX-License-Identifier: Apache-2.0
#include "kernels/cross_entropy.h"

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"

namespace llmtrain::body {
namespace {

struct LogitRows {
  at::Tensor logits, targets;  // [rows, columns], [rows]
};

LogitRows logit_rows(const StepTensors& tensors) {
  const at::Tensor targets = tensors.inputs[1].contiguous().view({-1});
  const at::Tensor& logits = tensors.inputs[0];
  return {logits.contiguous().view({targets.numel(), logits.size(-1)}), targets};
}

}  // namespace

StepResult forward(const CrossEntropy& /*cross_entropy*/, const StepTensors& tensors, const StepContext& /*context*/) {
  const LogitRows rows = logit_rows(tensors);
  return {kernels::cross_entropy_forward(rows.logits, rows.targets).view(tensors.inputs[1].sizes())};
}

// The gradient is in the logits' type, whatever the losses' is.
StepGradients backward(const CrossEntropy& /*cross_entropy*/, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& /*context*/) {
  const LogitRows rows = logit_rows(tensors);
  at::Tensor gradient = rows.logits.clone();
  kernels::cross_entropy_forward_backward_(gradient, rows.targets, 1);
  gradient.mul_(dy.reshape({-1, 1}));
  return {gradient.view(tensors.inputs[0].sizes()), {}};
}

}  // namespace llmtrain::body
