// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/product.h"

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const Product& /*product*/, const StepShape& shape) {
  shape.require_inputs(2, 2);
  for (const AxisId axis : shape.output().axes)
    if (!shape.input_has(0, axis) && !shape.input_has(1, axis))
      shape.refuse("no operand has the result's axis " + shape.axis_name(axis));
  for (const std::size_t one : {0, 1})
    for (const AxisId axis : shape.input(one).axes)
      if (!shape.output_has(axis) && !shape.input_has(1 - one, axis))
        shape.refuse("the axis " + shape.axis_name(axis) + " is summed over, but only one operand has it");
}

AxisUse axis_use(const Product& /*product*/, const StepShape& shape, AxisId axis) {
  return shape.output_has(axis) ? AxisUse::independent : AxisUse::summed;
}

Work work(const Product& /*product*/, const StepShape& shape) {
  ProductSize size{1, 1, 1, 1};
  for (const AxisId axis : shape.input(0).axes) {
    const bool is_shared = shape.input_has(1, axis), is_left = shape.output_has(axis);
    (!is_left ? size.inner : is_shared ? size.batch : size.rows) *= static_cast<double>(shape.extent(axis));
  }
  for (const AxisId axis : shape.input(1).axes)
    if (!shape.input_has(0, axis)) size.columns *= static_cast<double>(shape.extent(axis));
  return work_of_products(size, shape);
}

Kept kept(const Product& /*product*/, const StepShape& shape) { return kept_operands(shape); }

Work work_of_products(const ProductSize& size, const StepShape& shape) {
  const double gradients = static_cast<double>(shape.has_gradient(0)) + static_cast<double>(shape.has_gradient(1));
  const double read = shape.all_input_elements(), written = shape.output_elements();
  return {size, size.flops(), gradients * size.flops(), read + written,
          gradients * written + read + shape.gradient_elements()};
}

Kept kept_operands(const StepShape& shape) {
  Kept result;
  for (const std::size_t one : {0, 1})
    if (shape.has_gradient(1 - one)) result.inputs.push_back(one);
  return result;
}

}  // namespace llmtrain::body
