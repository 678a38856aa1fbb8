// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"
#include "kernels/accumulation_type.h"
#include "kernels/embedding.h"

namespace llmtrain::body {
namespace {

constexpr std::int64_t without_positions = 1;  // the length of sequences, which nothing depends on then

at::Tensor flat_numbers(const StepTensors& tensors) { return tensors.inputs[1].contiguous().view({-1}); }

}  // namespace

StepResult forward(const Gather& /*gather*/, const StepTensors& tensors, const StepContext& context) {
  const at::Tensor numbers = flat_numbers(tensors);
  const at::Tensor rows = kernels::embedding_forward(numbers, tensors.inputs[0].contiguous(), {}, without_positions);
  return {rows.view(extents_of(context.shape, context.shape.output().axes))};
}

StepGradients backward(const Gather& /*gather*/, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  const StepShape& shape = context.shape;
  const std::vector<std::int64_t> table = extents_of(shape, shape.input(0).axes);
  at::Tensor gradient = at::zeros(table, dy.options().dtype(kernels::accumulation_type(dy)));
  const at::Tensor numbers = flat_numbers(tensors);
  const at::Tensor rows = dy.contiguous().view({numbers.numel(), table[1]});
  kernels::embedding_backward(rows, numbers, gradient, {}, without_positions);
  return {typed_gradient(context, 0, dy, gradient), {}};
}

}  // namespace llmtrain::body
