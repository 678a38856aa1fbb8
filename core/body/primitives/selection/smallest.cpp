// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/selection/smallest.h"

#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const Smallest& /*smallest*/, const StepShape& shape) {
  shape.require_inputs(1, 1);
  std::vector<AxisId> axes = shape.input(0).axes;
  if (axes.empty() || shape.output().axes.empty()) shape.refuse("it takes the smallest along an axis");
  const AxisId along = axes.back(), ranks = shape.output().axes.back();
  axes.back() = ranks;
  if (shape.output().axes != axes) shape.refuse("the result has another axis in place of the last one");
  if (shape.extent(ranks) > shape.extent(along)) shape.refuse("there are not as many elements");
  if (!shape.output().is_index || shape.output().has_gradient) shape.refuse("places have no gradient");
}

AxisUse axis_use(const Smallest& /*smallest*/, const StepShape& shape, AxisId axis) {
  const bool is_kept = shape.input_has(0, axis) && shape.output_has(axis);
  return is_kept ? AxisUse::independent : AxisUse::whole;
}

// LibTorch's sort, where no loop takes the type, has the sorted elements and all places of a row; a loop has k of them.
Work work(const Smallest& /*smallest*/, const StepShape& shape) {
  return {.forward_elements = shape.input_elements(0) + 2 * shape.output_elements()};
}

Kept kept(const Smallest& /*smallest*/, const StepShape& /*shape*/) { return {}; }

}  // namespace llmtrain::body
