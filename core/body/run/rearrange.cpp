// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"

namespace llmtrain::body {
namespace {

at::Tensor part_of(const at::Tensor& x, const Rearrange& slice, const StepShape& shape) {
  const std::int64_t place = StepShape::place_in(shape.input(0), slice.whole);
  return x.narrow(place, slice.begin, shape.extent(slice.parts.front()));
}

}  // namespace

StepResult forward(const Rearrange& rearrange, const StepTensors& tensors, const StepContext& context) {
  const StepShape& shape = context.shape;
  const at::Tensor& x = tensors.inputs[0];
  switch (rearrange.kind) {
    case Rearrange::Kind::permute:
      return {in_order(x, shape.input(0).axes, shape.output().axes)};
    case Rearrange::Kind::merge:
    case Rearrange::Kind::split:
      return {x.reshape(extents_of(shape, shape.output().axes))};
    case Rearrange::Kind::slice:
      return {is_view(rearrange, shape) ? x : part_of(x, rearrange, shape).clone()};
    case Rearrange::Kind::repeat:
      return {x.unsqueeze(0).expand(extents_of(shape, shape.output().axes)).contiguous()};
  }
  return {};
}

StepGradients backward(const Rearrange& rearrange, const at::Tensor& dy, const StepTensors& /*tensors*/,
                       const StepContext& context) {
  const StepShape& shape = context.shape;
  at::Tensor dx;
  switch (rearrange.kind) {
    case Rearrange::Kind::permute:
      dx = in_order(dy, shape.output().axes, shape.input(0).axes);
      break;
    case Rearrange::Kind::merge:
    case Rearrange::Kind::split:
      dx = dy.reshape(extents_of(shape, shape.input(0).axes));
      break;
    case Rearrange::Kind::slice:
      if (is_view(rearrange, shape)) {
        dx = dy;
        break;
      }
      dx = at::zeros(extents_of(shape, shape.input(0).axes), dy.options());
      part_of(dx, rearrange, shape).copy_(dy);
      break;
    case Rearrange::Kind::repeat:
      dx = summed_to(dy, shape.output().axes, shape.input(0).axes);
      break;
  }
  return {typed_gradient(context, 0, dy, dx)};
}

}  // namespace llmtrain::body
