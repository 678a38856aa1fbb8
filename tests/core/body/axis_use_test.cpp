// SPDX-License-Identifier: Apache-2.0
// What primitives state of their axes, by what it means: parts that are computed apart against the whole.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <catch2/catch.hpp>

#include "core/body/step_shape.h"
#include "tests/core/body/body_cases.h"

namespace llmtrain::body::test {
namespace {

bool has_axis(const BodyTensor& tensor, AxisId axis) {
  return std::ranges::find(tensor.axes, axis) != tensor.axes.end();
}

struct Part {
  std::int64_t begin, extent;
};

// The result where there is a part of the axis alone.
at::Tensor value_of_part(Body body, GivenTensors given, AxisId axis, const Part& part, const BodyPass& pass = {}) {
  body.axes[axis].extent = part.extent;
  for (auto& [id, tensor] : given.tensors)
    if (has_axis(body.tensors[id], axis))
      tensor = tensor.narrow(StepShape::place_in(body.tensors[id], axis), part.begin, part.extent);
  return values_of(body, given, pass)[0];
}

std::vector<Part> parts_of(std::int64_t extent) { return {{0, extent / 2}, {extent / 2, extent - extent / 2}}; }

// Where a part has no meaning, as a causal mask where there are not as many keys as queries, or numbers of rows that
// are in another part of the table.
bool refuses_part(const Body& body, const GivenTensors& given, AxisId axis) {
  try {
    value_of_part(body, given, axis, parts_of(body.axes[axis].extent).front());
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

// How far elements of a window's axis reach.
struct Window {
  std::int64_t stride, padding, reach;
};

// Takes the padding out of the step of a body, whose windows then lie within what it is given.
Window unpadded(Body& body, std::size_t place) {
  Primitive& primitive = body.steps[0].primitive;
  if (auto* pool = std::get_if<Pool>(&primitive))
    return {pool->stride[place], std::exchange(pool->padding[place], 0), pool->window[place]};
  auto& convolution = std::get<Convolution>(primitive);
  convolution = along_axes(convolution, body.tensors[body.outputs[0]].axes.size() - 2);
  const AxisId of_kernel = body.tensors[body.steps[0].inputs[1]].axes[2 + place];
  return {convolution.stride[place], std::exchange(convolution.padding[place], 0),
          convolution.dilation[place] * (body.axes[of_kernel].extent - 1) + 1};
}

// Elements of the result behind the first, from the operand's elements that their windows reach alone.
void check_window(const BodyCase& of, Body body, AxisId axis) {
  GivenTensors given(body, of.fields(body));
  const at::Tensor whole = values_of(body, given)[0];
  const std::int64_t along = StepShape::place_in(body.tensors[body.steps[0].inputs[0]], axis);
  const AxisId result_axis = body.tensors[body.outputs[0]].axes[static_cast<std::size_t>(along)];
  const Window window = unpadded(body, static_cast<std::size_t>(along - 2));
  const std::int64_t first = window.padding / window.stride + 1;
  const Part part{first, whole.size(along) - 2 * first};
  const std::int64_t begin = window.stride * part.begin - window.padding;
  body.axes[axis].extent = window.stride * (part.extent - 1) + window.reach;
  body.axes[result_axis].extent = part.extent;
  REQUIRE(begin > 0);
  REQUIRE(begin + body.axes[axis].extent < given.tensors[0].size(along));
  given.tensors[0] = given.tensors[0].narrow(along, begin, body.axes[axis].extent);
  CHECK(distance(values_of(body, given)[0], whole.narrow(along, part.begin, part.extent)) <= 1e-14);
}

// Whether the parts could be computed.
bool check_use(const BodyCase& of, const Body& body, AxisId axis, AxisUse use) {
  const GivenTensors given(body, of.fields(body));
  const at::Tensor whole = values_of(body, given)[0];
  if (use == AxisUse::whole && refuses_part(body, given, axis)) return false;
  std::vector<at::Tensor> values;
  for (const Part& part : parts_of(body.axes[axis].extent)) values.push_back(value_of_part(body, given, axis, part));
  const BodyTensor& output = body.tensors[body.outputs[0]];
  const bool is_in_output = has_axis(output, axis);
  switch (use) {
    case AxisUse::independent:
      REQUIRE(is_in_output);
      CHECK(distance(at::cat(values, StepShape::place_in(output, axis)), whole) <= 1e-14);
      return true;
    case AxisUse::summed:
      REQUIRE_FALSE(is_in_output);
      CHECK(distance(values[0] + values[1], whole) <= 1e-14);
      return true;
    case AxisUse::whole:
      // Else it would be said too much.
      if (is_in_output)
        CHECK(distance(at::cat(values, StepShape::place_in(output, axis)), whole) > 1e-3);
      else
        CHECK(distance(values[0] + values[1], whole) > 1e-3);
      return true;
    case AxisUse::window:
      FAIL("windows are checked elsewhere");
  }
  return false;
}

// Labels of which the other side of the step has others, or whose extent another one's follows from: parts of one are
// none of the other.
bool has_linked_axes(const Primitive& primitive) {
  return std::holds_alternative<Rearrange>(primitive) || std::holds_alternative<Join>(primitive) ||
         std::holds_alternative<Convolution>(primitive);
}

}  // namespace

TEST_CASE("parts of an axis that is independent are parts of the result, and of one that is summed they add up") {
  std::map<AxisUse, int> seen;
  for (const BodyCase& of : primitive_cases()) {
    const Body body = of.make();
    for (AxisId axis = 0; axis < body.axes.size(); ++axis) {
      INFO(of.name << ", axis " << body.axes[axis].name);
      const AxisUse use = axis_use(body, body.steps[0], axis);
      if (use == AxisUse::window) {
        if (!has_axis(body.tensors[body.steps[0].inputs[0]], axis)) continue;
        check_window(of, body, axis);
        ++seen[use];
        continue;
      }
      if (use == AxisUse::whole && has_linked_axes(body.steps[0].primitive)) continue;
      if (check_use(of, body, axis, use)) ++seen[use];
    }
  }
  CHECK(seen[AxisUse::independent] > 50);
  CHECK(seen[AxisUse::summed] > 8);
  CHECK(seen[AxisUse::window] > 8);
  CHECK(seen[AxisUse::whole] > 15);
}

}  // namespace llmtrain::body::test
