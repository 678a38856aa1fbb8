// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/join.h"

#include <cstdint>
#include <string>
#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const Join& join, const StepShape& shape) {
  if (shape.inputs() < 2) shape.refuse("it takes two tensors or more");
  const std::vector<AxisId>& joined = shape.output().axes;
  if (join.place >= joined.size()) shape.refuse("the result lacks the axis along which it joins");
  std::int64_t extent = 0;
  for (std::size_t i = 0; i < shape.inputs(); ++i) {
    std::vector<AxisId> axes = shape.input(i).axes;
    if (axes.size() != joined.size()) shape.refuse("all have as many axes");
    extent += shape.extent(axes[join.place]);
    axes[join.place] = joined[join.place];
    if (axes != joined) shape.refuse("all have the same axes but for the one along which they are joined");
  }
  if (extent != shape.extent(joined[join.place]))
    shape.refuse("the parts have " + std::to_string(extent) + " elements along the joined axis");
}

AxisUse axis_use(const Join& join, const StepShape& shape, AxisId axis) {
  for (std::size_t i = 0; i < shape.inputs(); ++i)
    if (shape.input(i).axes[join.place] == axis) return AxisUse::whole;
  return shape.output().axes[join.place] == axis ? AxisUse::whole : AxisUse::independent;
}

// Gradients of the parts are views of the result's.
Work work(const Join& /*join*/, const StepShape& shape) { return {.forward_elements = 2 * shape.output_elements()}; }

Kept kept(const Join& /*join*/, const StepShape& /*shape*/) { return {}; }

}  // namespace llmtrain::body
