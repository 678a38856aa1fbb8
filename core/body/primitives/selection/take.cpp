// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/selection/take.h"

#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const Take& /*take*/, const StepShape& shape) {
  shape.require_inputs(2, 2);
  if (!shape.input(1).is_index) shape.refuse("places are what smallest makes");
  std::vector<AxisId> axes = shape.input(0).axes;
  if (axes.empty() || shape.input(1).axes.empty()) shape.refuse("it takes elements along an axis");
  axes.back() = shape.input(1).axes.back();
  if (shape.input(1).axes != axes) shape.refuse("places have another axis in place of the last one");
  if (shape.output().axes != axes) shape.refuse("the result has the axes of the places");
}

AxisUse axis_use(const Take& /*take*/, const StepShape& shape, AxisId axis) {
  return axis == shape.input(0).axes.back() ? AxisUse::whole : AxisUse::independent;
}

Work work(const Take& /*take*/, const StepShape& shape) {
  return {.forward_elements = 3 * shape.output_elements(),
          .backward_elements = shape.input_elements(0) + 3 * shape.output_elements()};
}

Kept kept(const Take& /*take*/, const StepShape& shape) {
  if (!shape.output().has_gradient) return {};
  return {.inputs = {1}};
}

}  // namespace llmtrain::body
