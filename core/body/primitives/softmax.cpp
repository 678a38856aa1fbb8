// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/softmax.h"

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const Softmax& softmax, const StepShape& shape) {
  shape.require_inputs(1, 1);
  if (shape.output().axes != shape.input(0).axes) shape.refuse("the result has the operand's axes");
  if (!shape.output_has(softmax.axis)) shape.refuse("the operand lacks the axis " + shape.axis_name(softmax.axis));
}

AxisUse axis_use(const Softmax& softmax, const StepShape& /*shape*/, AxisId axis) {
  return axis == softmax.axis ? AxisUse::whole : AxisUse::independent;
}

Work work(const Softmax& /*softmax*/, const StepShape& shape) {
  return {.forward_elements = 2 * shape.output_elements(), .backward_elements = 3 * shape.output_elements()};
}

Kept kept(const Softmax& /*softmax*/, const StepShape& shape) { return {.output = shape.output().has_gradient}; }

}  // namespace llmtrain::body
