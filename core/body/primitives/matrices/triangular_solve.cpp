// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/matrices/triangular_solve.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const TriangularSolve& /*solve*/, const StepShape& shape) {
  shape.require_inputs(2, 2);
  const std::vector<AxisId>& triangle = shape.input(0).axes;
  std::vector<AxisId> axes = shape.input(1).axes;
  if (triangle.size() < 2 || shape.extent(triangle[triangle.size() - 2]) != shape.extent(triangle.back()))
    shape.refuse("a triangle has as many rows as columns");
  const std::size_t rows = triangle.size() - 1;  // how many axes of it the other operand begins with
  if (axes.size() < rows || !std::equal(triangle.begin(), triangle.end() - 1, axes.begin()))
    shape.refuse("the other operand begins with the axes of the triangle up to its rows");
  axes[rows - 1] = triangle.back();
  if (shape.output().axes != axes) shape.refuse("the result has the triangle's columns in place of its rows");
}

AxisUse axis_use(const TriangularSolve& /*solve*/, const StepShape& shape, AxisId axis) {
  const std::vector<AxisId>& triangle = shape.input(0).axes;
  return std::find(triangle.end() - 2, triangle.end(), axis) != triangle.end() ? AxisUse::whole : AxisUse::independent;
}

// Half of what a product with a whole matrix has; the gradient of the triangle is such a product.
Work work(const TriangularSolve& /*solve*/, const StepShape& shape) {
  const std::vector<AxisId>& triangle = shape.input(0).axes;
  const double n = static_cast<double>(shape.extent(triangle.back())), of_triangle = shape.input_elements(0);
  const double batch = n == 0 ? 0 : of_triangle / (n * n), elements = shape.output_elements();
  const double columns = n == 0 || batch == 0 ? 0 : elements / (n * batch);
  const ProductSize size{n, columns, n / 2, batch};
  const double products = 1 + 2 * static_cast<double>(shape.has_gradient(0));
  return {.product = size,
          .forward_flops = size.flops(),
          .backward_flops = products * size.flops(),
          .forward_elements = of_triangle + 2 * elements,
          .backward_elements = of_triangle + 3 * elements + shape.gradient_elements(),
          .backward_temporaries = of_triangle,
          .forward_working = elements,
          .backward_working = of_triangle + 2 * elements};
}

Kept kept(const TriangularSolve& /*solve*/, const StepShape& shape) {
  if (!shape.output().has_gradient) return {};
  return {.inputs = {0}, .output = shape.has_gradient(0)};
}

}  // namespace llmtrain::body
