// SPDX-License-Identifier: Apache-2.0
#include "core/body/step_shape.h"

#include <algorithm>

#include "core/base/error.h"

namespace llmtrain::body {

bool StepShape::has(const BodyTensor& tensor, AxisId axis) {
  return std::ranges::find(tensor.axes, axis) != tensor.axes.end();
}

bool StepShape::has(AxisId axis) const {
  const auto reads = [&](TensorId id) { return has(body_.tensors[id], axis); };
  return output_has(axis) || std::ranges::any_of(step_.inputs, reads);
}

std::int64_t StepShape::place_in(const BodyTensor& tensor, AxisId axis) {
  return std::ranges::find(tensor.axes, axis) - tensor.axes.begin();
}

double StepShape::elements(const BodyTensor& tensor) const {
  double product = 1;
  for (const AxisId axis : tensor.axes) product *= static_cast<double>(extent(axis));
  return product;
}

double StepShape::all_input_elements() const {
  double sum = 0;
  for (std::size_t i = 0; i < inputs(); ++i) sum += input_elements(i);
  return sum;
}

double StepShape::gradient_elements() const {
  double sum = 0;
  for (std::size_t i = 0; i < inputs(); ++i)
    if (has_gradient(i)) sum += input_elements(i);
  return sum;
}

std::string StepShape::axes_text(const BodyTensor& tensor) const {
  std::string text;
  for (const AxisId axis : tensor.axes)
    text += (text.empty() ? "" : ", ") + axis_name(axis) + " " + std::to_string(extent(axis));
  return "[" + text + "]";
}

std::string StepShape::text() const {
  std::string text(name_of(step_.primitive));
  for (std::size_t i = 0; i < inputs(); ++i)
    text += (i == 0 ? " of " : i + 1 == inputs() ? " and " : ", ") + input(i).name + " " + axes_text(input(i));
  return text + " to " + axes_text(output());
}

void StepShape::refuse(const std::string& reason) const {
  throw Error(ExitCode::internal_error, "body: " + text() + ": " + reason);
}

void StepShape::require_inputs(std::size_t least, std::size_t most) const {
  if (inputs() >= least && inputs() <= most) return;
  const std::string range =
      least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
  refuse("it takes " + range + " tensors, not " + std::to_string(inputs()));
}

}  // namespace llmtrain::body
