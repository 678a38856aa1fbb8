// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/reduce.h"

#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const Reduce& /*reduce*/, const StepShape& shape) {
  shape.require_inputs(1, 1);
  std::vector<AxisId> left;
  for (const AxisId axis : shape.input(0).axes)
    if (shape.output_has(axis)) left.push_back(axis);
  if (left != shape.output().axes) shape.refuse("the result has some of the operand's axes, in its order");
}

// A part of a mean is divided by the part's extent, so that parts do not add up.
AxisUse axis_use(const Reduce& reduce, const StepShape& shape, AxisId axis) {
  if (shape.output_has(axis)) return AxisUse::independent;
  return reduce.kind == ReduceKind::sum ? AxisUse::summed : AxisUse::whole;
}

Work work(const Reduce& /*reduce*/, const StepShape& shape) {
  const double elements = shape.input_elements(0) + shape.output_elements();
  return {.forward_elements = elements, .backward_elements = elements};
}

Kept kept(const Reduce& /*reduce*/, const StepShape& /*shape*/) { return {}; }

}  // namespace llmtrain::body
