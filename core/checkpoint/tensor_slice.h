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

// Whether every element of the tensor is in exactly one box. All boxes lie within the tensor.
bool cover_exactly(const std::vector<std::int64_t>& tensor_shape, std::vector<SliceBox> boxes);

// A run of elements that are neighbours both in the slice and in the tensor, counted from the start of each.
struct ElementRun {
  std::int64_t in_slice = 0;
  std::int64_t in_tensor = 0;
  std::int64_t count = 0;
};

// Calls `visit` for the runs of a slice that lie in elements [begin, end) of the tensor, row-major, cut to that range.
void visit_runs(const std::vector<std::int64_t>& tensor_shape, const SliceBox& box, std::int64_t begin,
                std::int64_t end, const std::function<void(const ElementRun&)>& visit);

}  // namespace llmtrain
