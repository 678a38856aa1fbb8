// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/pool.h"

#include <string>
#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

constexpr std::size_t first_pooled = 2;

}  // namespace

std::int64_t pooled_extent(const Pool& pool, std::size_t axis, std::int64_t extent) {
  const std::int64_t padded = extent + 2 * pool.padding[axis];
  return padded < pool.window[axis] || pool.stride[axis] < 1 ? 0 : (padded - pool.window[axis]) / pool.stride[axis] + 1;
}

void check(const Pool& pool, const StepShape& shape) {
  shape.require_inputs(1, 1);
  const std::vector<AxisId>&x = shape.input(0).axes, &y = shape.output().axes;
  if (x.size() != first_pooled + 2 || y.size() != x.size() || x[0] != y[0] || x[1] != y[1])
    shape.refuse("images and the result are [samples, channels, height, width], with the same samples and channels");
  for (std::size_t i = 0; i < pool.window.size(); ++i) {
    if (pool.window[i] < 1 || pool.stride[i] < 1) shape.refuse("windows and strides are 1 at least");
    // Else a window could be of padding alone.
    if (pool.padding[i] < 0 || 2 * pool.padding[i] > pool.window[i])
      shape.refuse("padding is half of a window at most");
    if (pool.kind == PoolKind::average && pool.padding[i] > 0) shape.refuse("means have no padding");
    const std::int64_t extent = pooled_extent(pool, i, shape.extent(x[first_pooled + i]));
    if (extent < 1) shape.refuse("the window is longer than the image");
    if (extent != shape.extent(y[first_pooled + i]))
      shape.refuse("the result is " + std::to_string(extent) + " long along " + shape.axis_name(y[first_pooled + i]));
  }
}

AxisUse axis_use(const Pool& /*pool*/, const StepShape& shape, AxisId axis) {
  const bool is_outer = axis == shape.input(0).axes[0] || axis == shape.input(0).axes[1];
  return is_outer ? AxisUse::independent : AxisUse::window;
}

Work work(const Pool& /*pool*/, const StepShape& shape) {
  const double elements = shape.input_elements(0) + shape.output_elements();
  return {.forward_elements = elements, .backward_elements = elements};
}

// Where the largest elements were.
Kept kept(const Pool& pool, const StepShape& shape) {
  if (pool.kind == PoolKind::average || !shape.output().has_gradient) return {};
  return {.statistics = {{"places", shape.output_elements(), Statistic::Type::index}}};
}

}  // namespace llmtrain::body
