// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/tensor_slice.h"

#include <algorithm>
#include <numeric>

namespace llmtrain {
namespace {

bool overlap(const SliceBox& a, const SliceBox& b) {
  for (std::size_t axis = 0; axis < a.shape.size(); ++axis)
    if (a.offset[axis] >= b.offset[axis] + b.shape[axis] || b.offset[axis] >= a.offset[axis] + a.shape[axis])
      return false;
  return true;
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

// The first axis of a run: all axes behind it are whole, so that its elements are neighbours in the tensor.
std::size_t run_axis(const std::vector<std::int64_t>& tensor_shape, const SliceBox& box) {
  std::size_t axis = tensor_shape.size();
  while (axis > 0 && box.shape[axis - 1] == tensor_shape[axis - 1]) --axis;
  return axis == 0 ? 0 : axis - 1;
}

// The next index of the outer axes in row-major order.
void advance(std::vector<std::int64_t>& index, const std::vector<std::int64_t>& shape) {
  for (std::size_t axis = index.size(); axis-- > 0;) {
    if (++index[axis] < shape[axis]) return;
    index[axis] = 0;
  }
}

}  // namespace

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string slice_name(const std::string& tensor, const std::vector<std::int64_t>& tensor_shape, const SliceBox& box) {
  if (box.shape == tensor_shape) return tensor;
  std::string name = tensor;
  for (std::size_t axis = 0; axis < box.shape.size(); ++axis)
    name.append(axis == 0 ? "[" : ",")
        .append(std::to_string(box.offset[axis]))
        .append(":")
        .append(std::to_string(box.offset[axis] + box.shape[axis]));
  return name.append("]");
}

bool lies_within(const std::vector<std::int64_t>& tensor_shape, const SliceBox& box) {
  if (box.offset.size() != tensor_shape.size() || box.shape.size() != tensor_shape.size()) return false;
  for (std::size_t axis = 0; axis < tensor_shape.size(); ++axis)
    if (box.offset[axis] < 0 || box.shape[axis] < 0 || box.offset[axis] > tensor_shape[axis] ||
        box.shape[axis] > tensor_shape[axis] - box.offset[axis])
      return false;
  return true;
}

bool cover_exactly(const std::vector<std::int64_t>& tensor_shape, std::vector<SliceBox> boxes) {
  std::erase_if(boxes, [](const SliceBox& box) { return element_count(box.shape) == 0; });
  std::int64_t elements = 0;
  for (const SliceBox& box : boxes)
    if (__builtin_add_overflow(elements, element_count(box.shape), &elements)) return false;
  if (elements != element_count(tensor_shape)) return false;
  if (tensor_shape.empty()) return true;

  // As many elements as the tensor has and none twice: then none is missing.
  std::sort(boxes.begin(), boxes.end(), [](const SliceBox& a, const SliceBox& b) { return a.offset[0] < b.offset[0]; });
  for (auto box = boxes.begin(); box != boxes.end(); ++box)
    for (auto other = box + 1; other != boxes.end() && other->offset[0] < box->offset[0] + box->shape[0]; ++other)
      if (overlap(*box, *other)) return false;
  return true;
}

void visit_runs(const std::vector<std::int64_t>& tensor_shape, const SliceBox& box, std::int64_t begin,
                std::int64_t end, const std::function<void(const ElementRun&)>& visit) {
  const std::int64_t elements = element_count(box.shape);
  if (elements == 0) return;
  const std::size_t axis = run_axis(tensor_shape, box);
  const std::vector<std::int64_t> strides = strides_of(tensor_shape);
  const std::int64_t corner =
      std::inner_product(box.offset.begin(), box.offset.end(), strides.begin(), std::int64_t{0});
  std::int64_t length = 1;
  for (std::size_t inner = axis; inner < box.shape.size(); ++inner) length *= box.shape[inner];

  std::vector<std::int64_t> index(axis, 0);
  for (std::int64_t start = 0; start < elements; start += length) {
    const std::int64_t in_tensor = std::inner_product(index.begin(), index.end(), strides.begin(), corner);
    const std::int64_t first = std::max(in_tensor, begin);
    const std::int64_t last = std::min(in_tensor + length, end);
    if (first < last) visit({start + first - in_tensor, first, last - first});
    advance(index, box.shape);
  }
}

}  // namespace llmtrain
