// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/element_type.h"

namespace llmtrain {

// Position and shape of a slice in its tensor, in elements per dimension.
struct SliceBox {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> shape;
};

// The name of a slice in its file: the tensor's name, and for a part of it "name[0:64,128:256]".
std::string slice_name(const std::string& tensor, const std::vector<std::int64_t>& tensor_shape, const SliceBox& box);

// Whether the box is within the tensor. Safe for any numbers.
bool lies_within(const std::vector<std::int64_t>& tensor_shape, const SliceBox& box);

// Whether two non-empty boxes of one tensor have an element in common.
bool overlap(const SliceBox& a, const SliceBox& b);

// Whether every element of the tensor is in exactly one box. All boxes are within the tensor.
bool cover_exactly(const std::vector<std::int64_t>& tensor_shape, std::vector<SliceBox> boxes);

// Elements [begin, end) of a tensor in row-major order as consecutive boxes: the rest of the first row, whole rows, the
// needed part of the last row, and so on within a row. At most 2 · axes − 1 boxes, none empty; each is contiguous. 0 <=
// begin <= end <= its elements.
std::vector<SliceBox> boxes_of_range(const std::vector<std::int64_t>& shape, std::int64_t begin, std::int64_t end);

// A run of elements that are contiguous in both of two boxes, as row-major indices into each.
struct ElementRun {
  std::int64_t in_first = 0;
  std::int64_t in_second = 0;
  std::int64_t count = 0;
};

// Calls `visit` for the elements that two boxes of one tensor share, in row-major order, in runs as long as possible.
void visit_shared_runs(const SliceBox& first, const SliceBox& second,
                       const std::function<void(const ElementRun&)>& visit);

}  // namespace llmtrain
