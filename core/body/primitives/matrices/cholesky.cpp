// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/matrices/cholesky.h"

#include <algorithm>

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const Cholesky& cholesky, const StepShape& shape) {
  shape.require_inputs(1, 1);
  const std::vector<AxisId>& axes = shape.input(0).axes;
  if (shape.output().axes != axes) shape.refuse("the result has the operand's axes");
  if (axes.size() < 2 || shape.extent(axes[axes.size() - 2]) != shape.extent(axes.back()))
    shape.refuse("a matrix has as many rows as columns");
  if (cholesky.jitter < 0) shape.refuse("what is added to the diagonal is 0 or more");
}

AxisUse axis_use(const Cholesky& /*cholesky*/, const StepShape& shape, AxisId axis) {
  const std::vector<AxisId>& axes = shape.output().axes;
  return std::find(axes.end() - 2, axes.end(), axis) != axes.end() ? AxisUse::whole : AxisUse::independent;
}

// n³ ÷ 3 operations; the backward has a product and two solves.
Work work(const Cholesky& /*cholesky*/, const StepShape& shape) {
  const double n = static_cast<double>(shape.extent(shape.output().axes.back())), elements = shape.output_elements();
  const double matrices = n == 0 ? 0 : elements / (n * n);
  const ProductSize size{n, n, n / 6, matrices};
  return {.product = size,
          .forward_flops = size.flops(),
          .backward_flops = 4 * matrices * n * n * n,
          .forward_elements = 2 * elements,
          .backward_elements = 3 * elements,
          .forward_temporaries = 2 * elements,
          .backward_temporaries = 5 * elements};
}

Kept kept(const Cholesky& /*cholesky*/, const StepShape& shape) { return {.output = shape.output().has_gradient}; }

}  // namespace llmtrain::body
