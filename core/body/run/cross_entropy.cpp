// SPDX-License-Identifier: Apache-2.0
#include "kernels/cross_entropy.h"

#include <ATen/ops/full.h>

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

// A smoothed loss is the plain one and s·(logit of the target − mean of the logits).
StepResult forward(const CrossEntropy& /*cross_entropy*/, const StepTensors& tensors, const StepContext& context) {
  const LogitRows rows = logit_rows(tensors);
  at::Tensor losses = kernels::cross_entropy_forward(rows.logits, rows.targets);
  if (const double smoothing = context.pass.label_smoothing; smoothing > 0) {
    const at::Tensor of_targets = rows.logits.gather(1, rows.targets.unsqueeze(1)).squeeze(1).to(losses.scalar_type());
    losses = losses.add(of_targets.sub_(rows.logits.mean(1, false, losses.scalar_type())), smoothing);
  }
  return {losses.view(tensors.inputs[1].sizes())};
}

// The gradient is in the logits' type, whatever the losses' is.
StepGradients backward(const CrossEntropy& /*cross_entropy*/, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  const LogitRows rows = logit_rows(tensors);
  at::Tensor gradient = rows.logits.clone();
  kernels::cross_entropy_forward_backward_(gradient, rows.targets, 1);
  if (const double smoothing = context.pass.label_smoothing; smoothing > 0) {
    gradient.sub_(smoothing / static_cast<double>(gradient.size(1)));
    gradient.scatter_add_(1, rows.targets.unsqueeze(1), at::full({gradient.size(0), 1}, smoothing, gradient.options()));
  }
  gradient.mul_(dy.reshape({-1, 1}));
  return {gradient.view(tensors.inputs[0].sizes()), {}};
}

}  // namespace llmtrain::body
