// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/dropout.h"

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const Dropout& dropout, const StepShape& shape) {
  shape.require_inputs(1, 1);
  if (shape.output().axes != shape.input(0).axes) shape.refuse("the result has the operand's axes");
  if (!(dropout.probability >= 0 && dropout.probability < 1)) shape.refuse("a probability is at least 0 and below 1");
}

AxisUse axis_use(const Dropout& /*dropout*/, const StepShape& /*shape*/, AxisId /*axis*/) {
  return AxisUse::independent;
}

Work work(const Dropout& dropout, const StepShape& shape) {
  if (dropout.probability == 0) return {};
  const double elements = 2 * shape.output_elements();
  return {.forward_elements = elements, .backward_elements = elements};
}

Kept kept(const Dropout& /*dropout*/, const StepShape& /*shape*/) { return {}; }

}  // namespace llmtrain::body
