// SPDX-License-Identifier: Apache-2.0
#include "core/body/body.h"

#include <algorithm>
#include <memory>

#include "core/base/error.h"
#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

template <class Named>
std::size_t index_named(const std::vector<Named>& all, std::string_view name, const char* what) {
  const auto found = std::ranges::find(all, name, &Named::name);
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  std::string names;
  for (const Named& other : all) names += (names.empty() ? "" : ", ") + other.name;
  throw Error(ExitCode::internal_error,
              std::string("body: no ") + what + " is called " + std::string(name) + "; there are " + names);
}

}  // namespace

std::vector<TensorId> Body::tensors_of(BodyTensor::Role role) const {
  std::vector<TensorId> found;
  for (TensorId id = 0; id < tensors.size(); ++id)
    if (tensors[id].role == role) found.push_back(id);
  return found;
}

std::vector<std::int64_t> Body::shape_of(TensorId tensor) const {
  std::vector<std::int64_t> shape;
  for (const AxisId axis : tensors[tensor].axes) shape.push_back(axes[axis].extent);
  return shape;
}

TensorId Body::tensor_named(std::string_view name) const { return index_named(tensors, name, "tensor"); }
AxisId Body::axis_named(std::string_view name) const { return index_named(axes, name, "axis"); }

Body with_extents(Body body, const std::map<AxisId, std::int64_t>& extents) {
  for (const auto& [axis, extent] : extents) body.axes.at(axis).extent = extent;
  for (Step& step : body.steps) {
    if (auto* const chunked = std::get_if<Chunked>(&step.primitive))
      chunked->body = std::make_shared<const Body>(with_extents(*chunked->body, extents));
    check(body, step);
  }
  return body;
}

void check(const Body& body, const Step& step) {
  const StepShape shape(body, step);
  std::visit([&](const auto& of_kind) { check(of_kind, shape); }, step.primitive);
}

std::string_view name_of(const Primitive& primitive) {
  return std::visit([](const auto& of_kind) -> std::string_view { return of_kind.name; }, primitive);
}

AxisUse axis_use(const Body& body, const Step& step, AxisId axis) {
  const StepShape shape(body, step);
  if (!shape.has(axis)) return AxisUse::independent;
  return std::visit([&](const auto& of_kind) { return axis_use(of_kind, shape, axis); }, step.primitive);
}

Work work(const Body& body, const Step& step) {
  const StepShape shape(body, step);
  return std::visit([&](const auto& of_kind) { return work(of_kind, shape); }, step.primitive);
}

Kept kept(const Body& body, const Step& step) {
  const StepShape shape(body, step);
  return std::visit([&](const auto& of_kind) { return kept(of_kind, shape); }, step.primitive);
}

bool is_view(const Body& body, const Step& step) {
  const auto* rearrange = std::get_if<Rearrange>(&step.primitive);
  return rearrange != nullptr && is_view(*rearrange, StepShape(body, step));
}

bool makes_places(const Primitive& primitive) { return std::holds_alternative<Smallest>(primitive); }

double elements_of(const Body& body, TensorId tensor) {
  double elements = 1;
  for (const AxisId axis : body.tensors[tensor].axes) elements *= static_cast<double>(body.axes[axis].extent);
  return elements;
}

bool comes_in_pieces(const Step& step, const BodyTensor& parameter) {
  const auto* chunked = std::get_if<Chunked>(&step.primitive);
  return chunked != nullptr && !parameter.has(chunked->axis);
}

}  // namespace llmtrain::body
