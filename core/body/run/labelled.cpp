// SPDX-License-Identifier: Apache-2.0
#include "core/body/run/labelled.h"

#include <ATen/ops/sum.h>

#include <algorithm>

#include "kernels/accumulation_type.h"

namespace llmtrain::body {
namespace {

std::int64_t place_of(const std::vector<AxisId>& axes, AxisId axis) {
  return std::ranges::find(axes, axis) - axes.begin();
}

}  // namespace

std::vector<std::int64_t> extents_of(const StepShape& shape, const std::vector<AxisId>& axes) {
  std::vector<std::int64_t> extents;
  for (const AxisId axis : axes) extents.push_back(shape.extent(axis));
  return extents;
}

at::Tensor in_order(const at::Tensor& x, const std::vector<AxisId>& from, const std::vector<AxisId>& to) {
  if (from == to) return x;
  std::vector<std::int64_t> places;
  for (const AxisId axis : to) places.push_back(place_of(from, axis));
  return x.permute(places);
}

at::Tensor spread(const at::Tensor& x, const std::vector<AxisId>& from, const std::vector<AxisId>& to) {
  std::vector<AxisId> present;
  for (const AxisId axis : to)
    if (std::ranges::find(from, axis) != from.end()) present.push_back(axis);
  at::Tensor view = in_order(x, from, present);
  for (std::size_t i = 0; i < to.size(); ++i)
    if (std::ranges::find(from, to[i]) == from.end()) view = view.unsqueeze(static_cast<std::int64_t>(i));
  return view;
}

at::Tensor summed_to(const at::Tensor& x, const std::vector<AxisId>& from, const std::vector<AxisId>& to) {
  std::vector<std::int64_t> lacking;
  std::vector<AxisId> left;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (std::ranges::find(to, from[i]) == to.end())
      lacking.push_back(static_cast<std::int64_t>(i));
    else
      left.push_back(from[i]);
  }
  const at::ScalarType type = kernels::accumulation_type(x);
  // No axes would mean all of them.
  const at::Tensor sum = lacking.empty() ? x.to(type) : at::sum(x, lacking, false, type);
  return in_order(sum, left, to);
}

at::ScalarType gradient_type(const StepContext& context, std::size_t place, const at::Tensor& dy) {
  const bool is_parameter = context.shape.input(place).role == BodyTensor::Role::parameter;
  return is_parameter ? kernels::accumulation_type(dy) : dy.scalar_type();
}

at::Tensor typed_gradient(const StepContext& context, std::size_t place, const at::Tensor& dy,
                          const at::Tensor& gradient) {
  return gradient.to(gradient_type(context, place, dy));
}

}  // namespace llmtrain::body
