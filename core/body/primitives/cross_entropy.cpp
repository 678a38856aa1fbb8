// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/cross_entropy.h"

#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const CrossEntropy& /*cross_entropy*/, const StepShape& shape) {
  shape.require_inputs(2, 2);
  if (shape.input(0).axes.empty()) shape.refuse("logits have an axis of what they tell apart");
  if (shape.input(1).role != BodyTensor::Role::field) shape.refuse("targets are a field");
  std::vector<AxisId> rows = shape.input(0).axes;
  rows.pop_back();
  if (shape.input(1).axes != rows || shape.output().axes != rows)
    shape.refuse("targets and losses have the axes of the logits but the last");
}

AxisUse axis_use(const CrossEntropy& /*cross_entropy*/, const StepShape& shape, AxisId axis) {
  return axis == shape.input(0).axes.back() ? AxisUse::whole : AxisUse::independent;
}

Work work(const CrossEntropy& /*cross_entropy*/, const StepShape& shape) {
  return {.forward_elements = shape.input_elements(0), .backward_elements = shape.input_elements(0)};
}

Kept kept(const CrossEntropy& /*cross_entropy*/, const StepShape& shape) {
  return shape.has_gradient(0) ? Kept{.inputs = {0}} : Kept{};
}

}  // namespace llmtrain::body
