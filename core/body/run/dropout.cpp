// SPDX-License-Identifier: Apache-2.0
#include "kernels/random/dropout.h"

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"

namespace llmtrain::body {
namespace {

at::Tensor dropped_copy(const Dropout& dropout, const at::Tensor& x, const StepContext& context) {
  if (!context.pass.trains || dropout.probability == 0 || x.numel() == 0) return x;
  at::Tensor copy = x.clone(at::MemoryFormat::Contiguous);
  const std::int64_t each = x.dim() == 0 ? 1 : x.numel() / x.size(0);
  const std::uint64_t key = kernels::dropout_key(context.pass.seed, context.pass.step, context.site);
  kernels::dropout_(copy, {dropout.probability, key, context.pass.first_sample * each});
  return copy;
}

}  // namespace

StepResult forward(const Dropout& dropout, const StepTensors& tensors, const StepContext& context) {
  return {dropped_copy(dropout, tensors.inputs[0], context)};
}

// The forward's mask and factor, made again.
StepGradients backward(const Dropout& dropout, const at::Tensor& dy, const StepTensors& /*tensors*/,
                       const StepContext& context) {
  return {typed_gradient(context, 0, dy, dropped_copy(dropout, dy, context))};
}

}  // namespace llmtrain::body
