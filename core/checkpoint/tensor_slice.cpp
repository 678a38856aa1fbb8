// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/tensor_slice.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace llmtrain {
namespace {

using Numbers = std::vector<std::int64_t>;

// The common box; empty in some axis where the two do not overlap.
SliceBox intersection(const SliceBox& a, const SliceBox& b) {
  SliceBox common = a;
  for (std::size_t axis = 0; axis < a.shape.size(); ++axis) {
    common.offset[axis] = std::max(a.offset[axis], b.offset[axis]);
    const std::int64_t end = std::min(a.offset[axis] + a.shape[axis], b.offset[axis] + b.shape[axis]);
    common.shape[axis] = std::max<std::int64_t>(0, end - common.offset[axis]);
  }
  return common;
}

// Index of an element of the tensor within the box, in row-major order.
std::int64_t place_in(const SliceBox& box, const Numbers& element) {
  std::int64_t place = 0;
  for (std::size_t axis = 0; axis < element.size(); ++axis)
    place = place * box.shape[axis] + element[axis] - box.offset[axis];
  return place;
}

// The first axis of a run: all later axes are whole in both boxes, so that its elements are contiguous in both.
std::size_t run_axis(const SliceBox& common, const SliceBox& first, const SliceBox& second) {
  std::size_t axis = common.shape.size();
  while (axis > 0 && common.shape[axis - 1] == first.shape[axis - 1] &&
         common.shape[axis - 1] == second.shape[axis - 1])
    --axis;
  // One axis more may be partial: its indices are still contiguous, as all later axes are whole.
  return axis == 0 ? 0 : axis - 1;
}

// Appends a range of one row of the tensor: the axes in `row` are fixed, `begin` and `end` count elements of the
// others.
void append_boxes(const Numbers& shape, const Numbers& row, std::int64_t begin, std::int64_t end,
                  std::vector<SliceBox>& boxes) {
  if (begin == end) return;
  const std::size_t axis = row.size();
  const auto append = [&](std::int64_t first, std::int64_t count) {
    SliceBox box{row, Numbers(axis, 1)};
    box.offset.push_back(first);
    box.shape.push_back(count);
    box.offset.resize(shape.size(), 0);
    box.shape.insert(box.shape.end(), shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end());
    boxes.push_back(std::move(box));
  };
  const std::int64_t inner = element_count(Numbers(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()));
  const auto append_part = [&](std::int64_t index, std::int64_t first, std::int64_t last) {
    Numbers deeper = row;
    deeper.push_back(index);
    append_boxes(shape, deeper, first, last, boxes);
  };
  // In units of one index of this axis: a first part, whole indices as one box, and a last part; the parts are split
  // along the next axis. A range within one index has no whole ones and descends directly.
  const std::int64_t whole_begin = (begin + inner - 1) / inner, whole_end = end / inner;
  if (whole_begin > whole_end) return append_part(whole_end, begin - whole_end * inner, end - whole_end * inner);
  if (begin < whole_begin * inner) append_part(whole_begin - 1, begin - (whole_begin - 1) * inner, inner);
  if (whole_begin < whole_end) append(whole_begin, whole_end - whole_begin);
  append_part(whole_end, 0, end - whole_end * inner);
}

// The next index of the outer axes in row-major order: the last axis runs fastest.
void advance(Numbers& index, const Numbers& shape) {
  for (std::size_t axis = index.size(); axis-- > 0;) {
    if (++index[axis] < shape[axis]) return;
    index[axis] = 0;
  }
}

}  // namespace

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
    // By subtraction from the tensor's size, so that hostile offsets cannot overflow.
    if (box.offset[axis] < 0 || box.shape[axis] < 0 || box.offset[axis] > tensor_shape[axis] ||
        box.shape[axis] > tensor_shape[axis] - box.offset[axis])
      return false;
  return true;
}

bool overlap(const SliceBox& a, const SliceBox& b) {
  for (std::size_t axis = 0; axis < a.shape.size(); ++axis)
    if (a.offset[axis] >= b.offset[axis] + b.shape[axis] || b.offset[axis] >= a.offset[axis] + a.shape[axis])
      return false;
  return true;
}

bool cover_exactly(const std::vector<std::int64_t>& tensor_shape, std::vector<SliceBox> boxes) {
  // Empty slices are allowed and overlap nothing.
  std::erase_if(boxes, [](const SliceBox& box) { return element_count(box.shape) == 0; });
  std::int64_t elements = 0;
  for (const SliceBox& box : boxes)
    if (__builtin_add_overflow(elements, element_count(box.shape), &elements)) return false;
  if (elements != element_count(tensor_shape)) return false;
  if (tensor_shape.empty()) return true;

  // As many elements as the tensor has and none twice: then none is missing.
  std::sort(boxes.begin(), boxes.end(), [](const SliceBox& a, const SliceBox& b) { return a.offset[0] < b.offset[0]; });
  for (auto box = boxes.begin(); box != boxes.end(); ++box)
    // Sorted by the first axis, only boxes that start before this one ends can overlap it.
    for (auto other = box + 1; other != boxes.end() && other->offset[0] < box->offset[0] + box->shape[0]; ++other)
      if (overlap(*box, *other)) return false;
  return true;
}

std::vector<SliceBox> boxes_of_range(const std::vector<std::int64_t>& shape, std::int64_t begin, std::int64_t end) {
  std::vector<SliceBox> boxes;
  if (!shape.empty()) {
    append_boxes(shape, {}, begin, end, boxes);
    // A scalar has one element and no axis to split.
  } else if (begin < end) {
    boxes.emplace_back();
  }
  return boxes;
}

void visit_shared_runs(const SliceBox& first, const SliceBox& second,
                       const std::function<void(const ElementRun&)>& visit) {
  const SliceBox common = intersection(first, second);
  const std::int64_t elements = element_count(common.shape);
  if (elements == 0) return;
  // Copies are as long as possible: memcpy of whole rows or matrices rather than of elements.
  const std::size_t axis = run_axis(common, first, second);
  const std::int64_t length =
      element_count(Numbers(common.shape.begin() + static_cast<std::ptrdiff_t>(axis), common.shape.end()));
  Numbers index(axis, 0);
  for (std::int64_t done = 0; done < elements; done += length) {
    Numbers element = common.offset;
    std::transform(index.begin(), index.end(), element.begin(), element.begin(), std::plus<>());
    visit({place_in(first, element), place_in(second, element), length});
    advance(index, common.shape);
  }
}

}  // namespace llmtrain
