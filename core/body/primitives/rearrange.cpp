// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/rearrange.h"

#include <algorithm>
#include <string>

#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

bool joins_or_splits(const Rearrange& rearrange) {
  return rearrange.kind == Rearrange::Kind::merge || rearrange.kind == Rearrange::Kind::split;
}

// `axes` with the first of `from` that stand in it replaced by `to`; empty where they do not.
std::vector<AxisId> replaced(const std::vector<AxisId>& axes, const std::vector<AxisId>& from,
                             const std::vector<AxisId>& to) {
  // Not the search of ranges, whose result Clang 14 does not take for a range.
  const auto found = std::search(axes.begin(), axes.end(), from.begin(), from.end());
  if (from.empty() || found == axes.end()) return {};
  std::vector<AxisId> result(axes.begin(), found);
  result.insert(result.end(), to.begin(), to.end());
  result.insert(result.end(), found + static_cast<std::ptrdiff_t>(from.size()), axes.end());
  return result;
}

void check_repetition(const Rearrange& rearrange, const StepShape& shape) {
  if (shape.input_has(0, rearrange.whole)) shape.refuse("the operand has the axis along which it is repeated");
  if (rearranged(rearrange, shape.input(0).axes) != shape.output().axes)
    shape.refuse("the result has the operand's axes behind the one along which it is repeated");
}

void check_permutation(const StepShape& shape) {
  std::vector<AxisId> from = shape.input(0).axes, to = shape.output().axes;
  std::ranges::sort(from);
  std::ranges::sort(to);
  if (from != to) shape.refuse("the result has the operand's axes");
}

}  // namespace

std::vector<AxisId> rearranged(const Rearrange& rearrange, const std::vector<AxisId>& axes) {
  const std::vector<AxisId> whole{rearrange.whole};
  if (rearrange.kind == Rearrange::Kind::repeat) {
    std::vector<AxisId> result = whole;
    result.insert(result.end(), axes.begin(), axes.end());
    return result;
  }
  const bool merges = rearrange.kind == Rearrange::Kind::merge;
  return merges ? replaced(axes, rearrange.parts, whole) : replaced(axes, whole, rearrange.parts);
}

void check(const Rearrange& rearrange, const StepShape& shape) {
  shape.require_inputs(1, 1);
  if (rearrange.kind == Rearrange::Kind::permute) return check_permutation(shape);
  if (rearrange.kind == Rearrange::Kind::repeat) return check_repetition(rearrange, shape);
  const std::vector<AxisId> expected = rearranged(rearrange, shape.input(0).axes);
  if (rearrange.parts.empty() || expected.empty())
    shape.refuse("the operand lacks what is rearranged, or has it not side by side");
  if (expected != shape.output().axes) shape.refuse("what is rearranged stays in its place among the axes");
  const std::int64_t extent = shape.extent(rearrange.whole);
  if (joins_or_splits(rearrange)) {
    std::int64_t product = 1;
    for (const AxisId part : rearrange.parts) product *= shape.extent(part);
    if (product != extent)
      shape.refuse("the parts have " + std::to_string(product) + " elements, " + shape.axis_name(rearrange.whole) +
                   " has " + std::to_string(extent));
    return;
  }
  if (rearrange.parts.size() != 1) shape.refuse("a slice is one axis");
  if (rearrange.begin < 0 || rearrange.begin + shape.extent(rearrange.parts[0]) > extent)
    shape.refuse("a slice from " + std::to_string(rearrange.begin) + " on ends behind its axis");
}

// Where axes are joined or split, a part is that of the outermost, which the other side calls otherwise.
AxisUse axis_use(const Rearrange& rearrange, const StepShape& /*shape*/, AxisId axis) {
  if (rearrange.kind == Rearrange::Kind::permute || rearrange.kind == Rearrange::Kind::repeat)
    return AxisUse::independent;
  const bool is_part = std::ranges::find(rearrange.parts, axis) != rearrange.parts.end();
  return is_part || axis == rearrange.whole ? AxisUse::whole : AxisUse::independent;
}

bool is_view(const Rearrange& rearrange, const StepShape& shape) {
  if (rearrange.kind == Rearrange::Kind::repeat) return false;
  return rearrange.kind != Rearrange::Kind::slice || shape.extent(rearrange.whole) == shape.extent(rearrange.parts[0]);
}

// Whoever needs the elements of a permuted view side by side copies them: once for each pass.
Work work(const Rearrange& rearrange, const StepShape& shape) {
  const double read = shape.input_elements(0), written = shape.output_elements();
  if (rearrange.kind == Rearrange::Kind::permute)
    return {.forward_elements = read + written, .backward_elements = read + written};
  if (is_view(rearrange, shape)) return {};
  if (rearrange.kind == Rearrange::Kind::repeat)
    return {.forward_elements = read + written, .backward_elements = read + written};
  // The slice's gradient has zeros around it.
  return {.forward_elements = 2 * written, .backward_elements = read + written};
}

Kept kept(const Rearrange& /*rearrange*/, const StepShape& /*shape*/) { return {}; }

}  // namespace llmtrain::body
