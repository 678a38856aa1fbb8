// SPDX-License-Identifier: Apache-2.0
#include "core/body/body_writer.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace llmtrain::body {
namespace {

constexpr std::size_t windows_begin = 2;  // behind samples and channels

[[noreturn]] void refuse(const std::string& reason) { throw Error(ExitCode::internal_error, "body: " + reason); }

}  // namespace

void BodyWriter::require_new_name(std::string_view name) const {
  if (name.empty()) refuse("a tensor has a name");
  if (std::ranges::find(body_.tensors, name, &BodyTensor::name) != body_.tensors.end())
    refuse("two tensors are called " + std::string(name));
}

AxisId BodyWriter::axis(std::string name, std::int64_t extent) {
  if (extent < 0) refuse("the axis " + name + " cannot have " + std::to_string(extent) + " elements");
  if (std::ranges::find(body_.axes, name, &Axis::name) != body_.axes.end()) refuse("two axes are called " + name);
  body_.axes.push_back({std::move(name), extent});
  return body_.axes.size() - 1;
}

TensorId BodyWriter::add(BodyTensor tensor) {
  require_new_name(tensor.name);
  std::vector<AxisId> sorted = tensor.axes;
  std::ranges::sort(sorted);
  if (!sorted.empty() && sorted.back() >= body_.axes.size()) refuse(tensor.name + " has an axis that there is not");
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) refuse(tensor.name + " has the axis " + body_.axes[*twice].name + " twice");
  body_.tensors.push_back(std::move(tensor));
  return body_.tensors.size() - 1;
}

TensorId BodyWriter::input(std::string name, std::vector<AxisId> axes) {
  return add({std::move(name), std::move(axes), BodyTensor::Role::input, true});
}

TensorId BodyWriter::field(std::string name, std::vector<AxisId> axes) {
  return add({std::move(name), std::move(axes), BodyTensor::Role::field, false});
}

TensorId BodyWriter::parameter(std::string name, std::vector<AxisId> axes) {
  return add({std::move(name), std::move(axes), BodyTensor::Role::parameter, true});
}

TensorId BodyWriter::step(const Primitive& primitive, std::vector<TensorId> inputs, std::vector<AxisId> axes) {
  for (const TensorId input : inputs)
    if (input >= body_.tensors.size()) refuse("a step reads a tensor that there is not");
  const auto has_gradient = [&](TensorId id) { return body_.tensors[id].has_gradient; };
  std::string name = std::string(name_of(primitive)) + "_" + std::to_string(body_.steps.size());
  const bool are_places = makes_places(primitive);
  const TensorId output = add({std::move(name), std::move(axes), BodyTensor::Role::made,
                               !are_places && std::ranges::any_of(inputs, has_gradient), are_places});
  body_.steps.push_back({primitive, std::move(inputs), output});
  check(body_, body_.steps.back());
  return output;
}

TensorId BodyWriter::product(TensorId left, TensorId right, std::vector<AxisId> axes) {
  return step(Product{}, {left, right}, std::move(axes));
}

TensorId BodyWriter::elementwise(ElementwiseKind kind, std::vector<TensorId> operands) {
  if (operands.empty()) refuse("elementwise takes a tensor at least");
  std::vector<AxisId> axes = axes_of(operands.front());
  return step(Elementwise{kind}, std::move(operands), std::move(axes));
}

TensorId BodyWriter::scale(TensorId x, double factor) {
  return step(Elementwise{ElementwiseKind::scale, factor}, {x}, axes_of(x));
}

TensorId BodyWriter::softmax(TensorId x, AxisId axis) { return step(Softmax{axis}, {x}, axes_of(x)); }

TensorId BodyWriter::norm(const Norm& norm, TensorId x, TensorId weight, std::optional<TensorId> bias) {
  std::vector<TensorId> inputs{x, weight};
  if (bias) inputs.push_back(*bias);
  return step(norm, std::move(inputs), axes_of(x));
}

TensorId BodyWriter::reduce(ReduceKind kind, TensorId x, std::vector<AxisId> axes) {
  return step(Reduce{kind}, {x}, std::move(axes));
}

TensorId BodyWriter::permute(TensorId x, std::vector<AxisId> axes) {
  return step(Rearrange{.kind = Rearrange::Kind::permute}, {x}, std::move(axes));
}

TensorId BodyWriter::merge(TensorId x, std::vector<AxisId> parts, AxisId whole) {
  return rearrange({Rearrange::Kind::merge, whole, std::move(parts)}, x);
}

TensorId BodyWriter::split(TensorId x, AxisId whole, std::vector<AxisId> parts) {
  return rearrange({Rearrange::Kind::split, whole, std::move(parts)}, x);
}

TensorId BodyWriter::slice(TensorId x, AxisId whole, AxisId part, std::int64_t begin) {
  return rearrange({Rearrange::Kind::slice, whole, {part}, begin}, x);
}

TensorId BodyWriter::repeat(TensorId x, AxisId axis) {
  return rearrange({.kind = Rearrange::Kind::repeat, .whole = axis, .parts = {}}, x);
}

TensorId BodyWriter::rearrange(const Rearrange& rearrange, TensorId x) {
  return step(rearrange, {x}, rearranged(rearrange, axes_of(x)));
}

TensorId BodyWriter::join(std::vector<TensorId> parts, AxisId whole) {
  if (parts.size() < 2) refuse("join takes two tensors at least");
  std::vector<AxisId> axes = axes_of(parts[0]);
  const std::vector<AxisId>& others = axes_of(parts[1]);
  const auto difference = std::ranges::mismatch(axes, others).in1;
  const auto place = static_cast<std::size_t>(difference - axes.begin());
  if (place < axes.size()) axes[place] = whole;
  return step(Join{place}, std::move(parts), std::move(axes));
}

TensorId BodyWriter::attention(const Attention& attention, TensorId queries, TensorId keys, TensorId values,
                               std::optional<TensorId> bias) {
  std::vector<TensorId> inputs{queries, keys, values};
  if (bias) inputs.push_back(*bias);
  return step(attention, std::move(inputs), axes_of(queries));
}

std::vector<AxisId> BodyWriter::with_windows(TensorId x, const std::vector<std::int64_t>& extents) {
  std::vector<AxisId> axes = axes_of(x);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    AxisId& window = axes[windows_begin + i];
    window = axis(body_.axes[window].name + "_" + std::to_string(body_.steps.size()), extents[i]);
  }
  return axes;
}

TensorId BodyWriter::convolution(const Convolution& convolution, TensorId x, TensorId kernel) {
  const std::vector<AxisId>&of_x = axes_of(x), &of_kernel = axes_of(kernel);
  if (of_x.size() <= windows_begin || of_kernel.size() != of_x.size()) return step(convolution, {x, kernel}, of_x);
  const std::size_t windows = of_x.size() - windows_begin;
  const Convolution along = along_axes(convolution, windows);
  std::vector<std::int64_t> extents;
  for (std::size_t i = 0; i < std::min({windows, along.stride.size(), along.padding.size(), along.dilation.size()});
       ++i)
    extents.push_back(convolved_extent(along, i, body_.axes[of_x[windows_begin + i]].extent,
                                       body_.axes[of_kernel[windows_begin + i]].extent));
  const AxisId channels = of_kernel[0];
  std::vector<AxisId> axes = with_windows(x, extents);
  axes[1] = channels;
  return step(convolution, {x, kernel}, std::move(axes));
}

TensorId BodyWriter::pool(const Pool& pool, TensorId x) {
  const std::vector<AxisId>& of_x = axes_of(x);
  if (of_x.size() != windows_begin + pool.window.size()) return step(pool, {x}, of_x);
  std::vector<std::int64_t> extents;
  for (std::size_t i = 0; i < pool.window.size(); ++i)
    extents.push_back(pooled_extent(pool, i, body_.axes[of_x[windows_begin + i]].extent));
  return step(pool, {x}, with_windows(x, extents));
}

TensorId BodyWriter::gather(TensorId table, TensorId numbers) {
  std::vector<AxisId> axes = axes_of(numbers);
  if (!axes_of(table).empty()) axes.push_back(axes_of(table).back());
  return step(Gather{}, {table, numbers}, std::move(axes));
}

TensorId BodyWriter::cross_entropy(TensorId logits, TensorId targets) {
  return step(CrossEntropy{}, {logits, targets}, axes_of(targets));
}

TensorId BodyWriter::smallest(TensorId x, AxisId ranks) {
  std::vector<AxisId> axes = axes_of(x);
  if (!axes.empty()) axes.back() = ranks;
  return step(Smallest{}, {x}, std::move(axes));
}

TensorId BodyWriter::take(TensorId x, TensorId places) { return step(Take{}, {x, places}, axes_of(places)); }

TensorId BodyWriter::cholesky(TensorId x, double jitter) { return step(Cholesky{jitter}, {x}, axes_of(x)); }

TensorId BodyWriter::triangular_solve(TensorId triangle, TensorId right) {
  const std::vector<AxisId>& of_triangle = axes_of(triangle);
  std::vector<AxisId> axes = axes_of(right);
  if (of_triangle.size() >= 2 && axes.size() + 1 >= of_triangle.size())
    axes[of_triangle.size() - 2] = of_triangle.back();
  return step(TriangularSolve{}, {triangle, right}, std::move(axes));
}

TensorId BodyWriter::diagonal(TensorId x) {
  std::vector<AxisId> axes = axes_of(x);
  if (!axes.empty()) axes.pop_back();
  return step(Diagonal{}, {x}, std::move(axes));
}

TensorId BodyWriter::dropout(double probability, TensorId x) { return step(Dropout{probability}, {x}, axes_of(x)); }

TensorId BodyWriter::named(TensorId made, std::string name) {
  require_new_name(name);
  body_.tensors[made].name = std::move(name);
  return made;
}

Body BodyWriter::take() {
  if (body_.outputs.empty()) refuse("it has an output at least");
  return std::exchange(body_, {});
}

}  // namespace llmtrain::body
