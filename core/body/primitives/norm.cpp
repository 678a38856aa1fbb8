// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/norm.h"

#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

double extent_of(const StepShape& shape, std::size_t place) {
  return static_cast<double>(shape.extent(shape.output().axes[place]));
}

// How many statistics of each kind there are.
double normed_parts(const Norm& norm, const StepShape& shape) {
  if (norm.kind == NormKind::group) return extent_of(shape, 0) * static_cast<double>(norm.groups);
  double rows = 1;
  for (std::size_t i = 0; i + 1 < shape.output().axes.size(); ++i) rows *= extent_of(shape, i);
  return rows;
}

AxisId weighted_axis(const Norm& norm, const StepShape& shape) {
  return norm.kind == NormKind::group ? shape.output().axes[1] : shape.output().axes.back();
}

}  // namespace

void check(const Norm& norm, const StepShape& shape) {
  const bool is_group = norm.kind == NormKind::group;
  shape.require_inputs(is_group ? 3 : 2, norm.kind == NormKind::root_mean_square ? 2 : 3);
  if (shape.output().axes.size() < (is_group ? 2 : 1) || shape.output().axes != shape.input(0).axes)
    shape.refuse("the result has the operand's axes, of which there are enough to norm along");
  const AxisId weighted = weighted_axis(norm, shape);
  for (std::size_t i = 1; i < shape.inputs(); ++i)
    if (shape.input(i).axes != std::vector<AxisId>{weighted})
      shape.refuse("weight and bias are of the axis " + shape.axis_name(weighted));
  if (!(norm.epsilon >= 0)) shape.refuse("epsilon is not negative");
  if (is_group && (norm.groups < 1 || shape.extent(weighted) % norm.groups != 0))
    shape.refuse("groups divide the channels");
}

AxisUse axis_use(const Norm& norm, const StepShape& shape, AxisId axis) {
  if (norm.kind == NormKind::group) return axis == shape.output().axes[0] ? AxisUse::independent : AxisUse::whole;
  return axis == shape.output().axes.back() ? AxisUse::whole : AxisUse::independent;
}

// The backward reads the operand and the result's gradient, and writes the operand's.
Work work(const Norm& /*norm*/, const StepShape& shape) {
  return {.forward_elements = 2 * shape.output_elements(), .backward_elements = 3 * shape.output_elements()};
}

Kept kept(const Norm& norm, const StepShape& shape) {
  if (!shape.output().has_gradient) return {};
  Kept result{.inputs = {0}};
  if (norm.kind != NormKind::root_mean_square) result.statistics.push_back({"mean", normed_parts(norm, shape)});
  result.statistics.push_back({"rstd", normed_parts(norm, shape)});
  return result;
}

}  // namespace llmtrain::body
