// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/elementwise.h"

#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

bool repeats_operands(ElementwiseKind kind) {
  return kind == ElementwiseKind::add || kind == ElementwiseKind::multiply;
}

}  // namespace

void check(const Elementwise& elementwise, const StepShape& shape) {
  const bool is_of_two = elementwise.kind == ElementwiseKind::multiply || elementwise.kind == ElementwiseKind::swiglu;
  if (elementwise.kind == ElementwiseKind::add) {
    if (shape.inputs() < 2) shape.refuse("a sum takes two tensors or more");
  } else {
    shape.require_inputs(is_of_two ? 2 : 1, is_of_two ? 2 : 1);
  }
  if (shape.output().axes != shape.input(0).axes) shape.refuse("the result has the axes of the first operand");
  for (std::size_t i = 1; i < shape.inputs(); ++i) {
    if (!repeats_operands(elementwise.kind) && shape.input(i).axes != shape.input(0).axes)
      shape.refuse("both operands have the same axes");
    for (const AxisId axis : shape.input(i).axes)
      if (!shape.output_has(axis)) shape.refuse("the first operand lacks the axis " + shape.axis_name(axis));
  }
}

AxisUse axis_use(const Elementwise& /*elementwise*/, const StepShape& /*shape*/, AxisId /*axis*/) {
  return AxisUse::independent;
}

Kept kept(const Elementwise& elementwise, const StepShape& shape) {
  if (!shape.output().has_gradient) return {};
  switch (elementwise.kind) {
    case ElementwiseKind::add:
    case ElementwiseKind::scale:
      return {};
    case ElementwiseKind::multiply: {
      Kept result;
      for (const std::size_t one : {0, 1})
        if (shape.has_gradient(1 - one)) result.inputs.push_back(one);
      return result;
    }
    case ElementwiseKind::relu:
    case ElementwiseKind::sigmoid:
    case ElementwiseKind::tanh:
    case ElementwiseKind::exp:
      return {.output = true};
    case ElementwiseKind::gelu:
    case ElementwiseKind::gelu_tanh:
    case ElementwiseKind::silu:
    case ElementwiseKind::log:
      return {.inputs = {0}};
    case ElementwiseKind::swiglu:
      return {.inputs = {0, 1}};
  }
  return {};
}

// The backward of a sum copies nothing, but adds up the gradients of what is repeated.
Work work(const Elementwise& elementwise, const StepShape& shape) {
  const double forward = shape.all_input_elements() + shape.output_elements();
  double backward = shape.output_elements() + shape.gradient_elements();
  const Kept read = kept(elementwise, shape);
  for (const std::size_t place : read.inputs) backward += shape.input_elements(place);
  if (read.output) backward += shape.output_elements();
  if (elementwise.kind == ElementwiseKind::add) {
    backward = 0;
    for (std::size_t i = 1; i < shape.inputs(); ++i)
      if (shape.has_gradient(i) && shape.input_elements(i) < shape.output_elements())
        backward += shape.output_elements() + shape.input_elements(i);
  }
  // Where no kernel takes the two operands apart, they are copied beside each other.
  const double copied = elementwise.kind == ElementwiseKind::swiglu ? 2 * shape.output_elements() : 0;
  return {.forward_elements = forward,
          .backward_elements = backward,
          .forward_working = copied,
          .backward_working = copied};
}

}  // namespace llmtrain::body
