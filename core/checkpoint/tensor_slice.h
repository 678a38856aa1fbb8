// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace llmtrain {

// Where a slice lies in its tensor, in elements per dimension.
struct SliceBox {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> shape;
};

std::int64_t element_count(const std::vector<std::int64_t>& shape);

// What a slice is called in its file: the tensor's name, and for a part "name[0:64,128:256]".
std::string slice_name(const std::string& tensor, const std::vector<std::int64_t>& tensor_shape, const SliceBox& box);

// Whether the box lies in the tensor. Safe against any numbers.
bool lies_within(const std::vector<std::int64_t>& tensor_shape, const SliceBox& box);

// Whether two boxes of one tensor, neither of them empty, have an element in common.
bool overlap(const SliceBox& a, const SliceBox& b);

// Whether every element of the tensor is in exactly one box. All boxes lie within the tensor.
bool cover_exactly(const std::vector<std::int64_t>& tensor_shape, std::vector<SliceBox> boxes);

// Elements [begin, end) of a tensor in row-major order as boxes, one behind the other: what is left of the first row,
// whole rows, what is needed of the last one, and so on within a row. At most 2 · axes − 1 of them, none empty; each is
// one run of neighbours. 0 <= begin <= end <= its elements.
std::vector<SliceBox> boxes_of_range(const std::vector<std::int64_t>& shape, std::int64_t begin, std::int64_t end);

// A run of elements that are neighbours in both of two boxes, counted in row-major order from the start of each.
struct ElementRun {
  std::int64_t in_first = 0;
  std::int64_t in_second = 0;
  std::int64_t count = 0;
};

// Calls `visit` for what two boxes of one tensor share, in row-major order, in as long runs as there are.
void visit_shared_runs(const SliceBox& first, const SliceBox& second,
                       const std::function<void(const ElementRun&)>& visit);

}  // namespace llmtrain
