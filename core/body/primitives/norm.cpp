// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/norm.h"

#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

double norm_rows(const StepShape& shape) {
  double rows = 1;
  for (std::size_t i = 0; i + 1 < shape.output().axes.size(); ++i)
    rows *= static_cast<double>(shape.extent(shape.output().axes[i]));
  return rows;
}

}  // namespace

void check(const Norm& norm, const StepShape& shape) {
  shape.require_inputs(2, norm.kind == NormKind::layer ? 3 : 2);
  if (shape.output().axes.empty() || shape.output().axes != shape.input(0).axes)
    shape.refuse("the result has the operand's axes, of which it has one at least");
  const std::vector<AxisId> last{shape.output().axes.back()};
  for (std::size_t i = 1; i < shape.inputs(); ++i)
    if (shape.input(i).axes != last)
      shape.refuse("weight and bias are of the last axis, " + shape.axis_name(last.front()));
  if (!(norm.epsilon >= 0)) shape.refuse("epsilon is not negative");
}

AxisUse axis_use(const Norm& /*norm*/, const StepShape& shape, AxisId axis) {
  return axis == shape.output().axes.back() ? AxisUse::whole : AxisUse::independent;
}

// The backward reads the operand and the result's gradient, and writes the operand's.
Work work(const Norm& /*norm*/, const StepShape& shape) {
  return {.forward_elements = 2 * shape.output_elements(), .backward_elements = 3 * shape.output_elements()};
}

Kept kept(const Norm& norm, const StepShape& shape) {
  if (!shape.output().has_gradient) return {};
  Kept result{.inputs = {0}};
  if (norm.kind == NormKind::layer) result.statistics.push_back({"mean", norm_rows(shape)});
  result.statistics.push_back({"rstd", norm_rows(shape)});
  return result;
}

}  // namespace llmtrain::body
