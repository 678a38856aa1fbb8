// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"

namespace llmtrain::body {

StepResult forward(const Pool& pool, const StepTensors& tensors, const StepContext& /*context*/) {
  const at::Tensor x = tensors.inputs[0].contiguous();
  if (pool.kind == PoolKind::average) return {at::avg_pool2d(x, pool.window, pool.stride, pool.padding)};
  auto made = at::max_pool2d_with_indices(x, pool.window, pool.stride, pool.padding);
  return {std::get<0>(made), {std::get<1>(made)}};
}

// The backward functions read nothing of the images but their shape.
StepGradients backward(const Pool& pool, const at::Tensor& dy, const StepTensors& tensors, const StepContext& context) {
  const at::Tensor images = dy.new_zeros({1}).expand(extents_of(context.shape, context.shape.input(0).axes));
  const at::Tensor gradient = dy.contiguous();
  const at::Tensor dx =
      pool.kind == PoolKind::average
          ? at::avg_pool2d_backward(gradient, images, pool.window, pool.stride, pool.padding, false, true, {})
          : at::max_pool2d_with_indices_backward(gradient, images, pool.window, pool.stride, pool.padding, {1, 1},
                                                 false, tensors.statistics[0]);
  return {typed_gradient(context, 0, dy, dx)};
}

}  // namespace llmtrain::body
