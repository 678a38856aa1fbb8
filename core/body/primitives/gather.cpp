// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/gather.h"

#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const Gather& /*gather*/, const StepShape& shape) {
  shape.require_inputs(2, 2);
  if (shape.input(0).axes.size() != 2) shape.refuse("a table is [rows, features]");
  if (shape.input(1).role != BodyTensor::Role::field && !shape.input(1).is_index)
    shape.refuse("the numbers of rows are a field, or places");
  std::vector<AxisId> axes = shape.input(1).axes;
  axes.push_back(shape.input(0).axes.back());
  if (shape.output().axes != axes) shape.refuse("the result has the axes of the numbers, and the features");
}

AxisUse axis_use(const Gather& /*gather*/, const StepShape& shape, AxisId axis) {
  return axis == shape.input(0).axes.front() ? AxisUse::whole : AxisUse::independent;
}

Work work(const Gather& /*gather*/, const StepShape& shape) {
  const double elements = 2 * shape.output_elements();
  return {.forward_elements = elements, .backward_elements = elements};
}

// Numbers that are a field are given again.
Kept kept(const Gather& /*gather*/, const StepShape& shape) {
  if (!shape.output().has_gradient || shape.input(1).is_given()) return {};
  return {.inputs = {1}};
}

}  // namespace llmtrain::body
