// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/body/body.h"

namespace llmtrain::body {

// The tensors of one step, as its primitive sees them. Body and step outlive this.
class StepShape {
 public:
  StepShape(const Body& body, const Step& step) : body_(body), step_(step) {}

  const Body& body() const { return body_; }
  const Step& step() const { return step_; }
  std::size_t inputs() const { return step_.inputs.size(); }
  const BodyTensor& input(std::size_t place) const { return body_.tensors[step_.inputs[place]]; }
  const BodyTensor& output() const { return body_.tensors[step_.output]; }
  std::int64_t extent(AxisId axis) const { return body_.axes[axis].extent; }
  bool input_has(std::size_t place, AxisId axis) const { return has(input(place), axis); }
  bool output_has(AxisId axis) const { return has(output(), axis); }
  bool has(AxisId axis) const;
  // Where the axis is among the tensor's, which has it.
  static std::int64_t place_in(const BodyTensor& tensor, AxisId axis);
  // Whether the backward makes its gradient.
  bool has_gradient(std::size_t place) const { return input(place).has_gradient; }

  double elements(const BodyTensor& tensor) const;
  double input_elements(std::size_t place) const { return elements(input(place)); }
  double output_elements() const { return elements(output()); }
  double all_input_elements() const;
  // Elements of the gradients that the backward writes.
  double gradient_elements() const;

  // "product of x [t, h] and gate [f, h] to [t, f]": with names and extents.
  std::string text() const;
  // Throws Error(internal_error): the text, and why it cannot be.
  [[noreturn]] void refuse(const std::string& reason) const;
  // Refuses unless the step has so many inputs.
  void require_inputs(std::size_t least, std::size_t most) const;
  std::string axis_name(AxisId axis) const { return body_.axes[axis].name; }

 private:
  static bool has(const BodyTensor& tensor, AxisId axis);
  std::string axes_text(const BodyTensor& tensor) const;

  const Body& body_;
  const Step& step_;
};

}  // namespace llmtrain::body
