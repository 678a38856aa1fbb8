// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/tensor_slice.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

namespace llmtrain {
namespace {

using Numbers = std::vector<std::int64_t>;

// Whether element `flat` of the tensor is in the box, and its index there, found by counting one by one.
std::optional<std::int64_t> place_in_box(const Numbers& shape, const SliceBox& box, std::int64_t flat) {
  Numbers index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; flat /= shape[axis]) index[axis] = flat % shape[axis];
  std::int64_t place = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t inside = index[axis] - box.offset[axis];
    if (inside < 0 || inside >= box.shape[axis]) return std::nullopt;
    place = place * box.shape[axis] + inside;
  }
  return place;
}

SliceBox random_box(const Numbers& shape) {
  SliceBox box;
  for (const std::int64_t size : shape) {
    box.offset.push_back(*rc::gen::inRange<std::int64_t>(0, size + 1));
    box.shape.push_back(*rc::gen::inRange<std::int64_t>(0, size - box.offset.back() + 1));
  }
  return box;
}

Numbers random_shape() {
  return *rc::gen::resize(4, rc::gen::container<Numbers>(rc::gen::inRange<std::int64_t>(1, 5)));
}

bool runs_match_counting() {
  const Numbers shape = random_shape();
  const SliceBox first = random_box(shape), second = random_box(shape);
  Numbers expected, visited;  // where the shared elements are in each box, in the tensor's order
  for (std::int64_t flat = 0; flat < element_count(shape); ++flat) {
    const auto in_first = place_in_box(shape, first, flat), in_second = place_in_box(shape, second, flat);
    if (in_first && in_second) expected.insert(expected.end(), {*in_first, *in_second});
  }
  visit_shared_runs(first, second, [&](const ElementRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) visited.insert(visited.end(), {run.in_first + i, run.in_second + i});
  });
  RC_ASSERT(visited == expected);
  return true;
}

bool ranges_match_counting() {
  const Numbers shape = random_shape();
  const std::int64_t elements = element_count(shape);
  const std::int64_t begin = *rc::gen::inRange<std::int64_t>(0, elements + 1);
  const std::int64_t end = *rc::gen::inRange<std::int64_t>(begin, elements + 1);
  const std::vector<SliceBox> boxes = boxes_of_range(shape, begin, end);
  RC_ASSERT(boxes.size() <= std::max<std::size_t>(1, 2 * shape.size() - 1));
  std::int64_t next = begin;
  for (const SliceBox& box : boxes) {
    RC_ASSERT(lies_within(shape, box));
    RC_ASSERT(element_count(box.shape) > 0);
    for (std::int64_t i = 0; i < element_count(box.shape); ++i) RC_ASSERT(place_in_box(shape, box, next++) == i);
  }
  RC_ASSERT(next == end);
  return true;
}

bool cover_matches_counting() {
  const Numbers shape = random_shape();
  std::vector<SliceBox> boxes;
  const int count = *rc::gen::inRange(0, 4);
  for (int i = 0; i < count; ++i) boxes.push_back(random_box(shape));
  bool once = true;
  for (std::int64_t flat = 0; flat < element_count(shape); ++flat)
    once &= 1 == std::count_if(boxes.begin(), boxes.end(),
                               [&](const SliceBox& box) { return place_in_box(shape, box, flat).has_value(); });
  RC_ASSERT(cover_exactly(shape, boxes) == once);
  return true;
}

TEST_CASE("the runs that two slices share match brute force") { CHECK(rc::check("runs", runs_match_counting)); }
TEST_CASE("a range's boxes are the elements of the range, in order") {
  CHECK(rc::check("ranges", ranges_match_counting));
}
TEST_CASE("covers match brute force") { CHECK(rc::check("covers", cover_matches_counting)); }

TEST_CASE("boxes cover a tensor, or not") {
  CHECK(cover_exactly({4, 6}, {{{0, 0}, {2, 6}}, {{2, 0}, {2, 3}}, {{2, 3}, {2, 3}}}));
  CHECK_FALSE(cover_exactly({4, 6}, {{{0, 0}, {2, 6}}, {{2, 0}, {2, 3}}}));
  CHECK_FALSE(cover_exactly({4, 6}, {{{0, 0}, {2, 6}}, {{1, 0}, {2, 6}}}));
  CHECK_FALSE(cover_exactly({2}, {{{0}, {2}}, {{0}, {2}}}));
  CHECK(cover_exactly({}, {{{}, {}}}));
  CHECK_FALSE(cover_exactly({}, {}));
  CHECK_FALSE(cover_exactly({}, {{{}, {}}, {{}, {}}}));
  CHECK(cover_exactly({0, 3}, {}));
}

TEST_CASE("what is contiguous in both boxes is one run") {
  std::vector<std::int64_t> counts;
  const auto note = [&](const ElementRun& run) { counts.push_back(run.count); };
  visit_shared_runs({{0, 0, 0}, {3, 4, 5}}, {{0, 0, 0}, {3, 4, 5}}, note);
  visit_shared_runs({{0, 0, 0}, {2, 4, 5}}, {{1, 0, 0}, {2, 4, 5}}, note);
  visit_shared_runs({{0, 0, 0}, {3, 4, 5}}, {{0, 0, 0}, {1, 2, 4}}, note);
  CHECK(counts == Numbers{60, 20, 4, 4});
}

TEST_CASE("a range is the rest of a row, whole rows and the start of a row") {
  const std::vector<SliceBox> boxes = boxes_of_range({5, 6}, 4, 27);
  REQUIRE(boxes.size() == 3);
  CHECK(slice_name("w", {5, 6}, boxes[0]) == "w[0:1,4:6]");
  CHECK(slice_name("w", {5, 6}, boxes[1]) == "w[1:4,0:6]");
  CHECK(slice_name("w", {5, 6}, boxes[2]) == "w[4:5,0:3]");
  CHECK(slice_name("w", {5, 6}, boxes_of_range({5, 6}, 0, 30).at(0)) == "w");
  CHECK(boxes_of_range({5, 6}, 7, 9).size() == 1);
  CHECK(boxes_of_range({}, 0, 1).size() == 1);
  CHECK(boxes_of_range({}, 0, 0).empty());
  CHECK(boxes_of_range({0, 3}, 0, 0).empty());
}

TEST_CASE("a box outside its tensor is detected whatever its numbers") {
  CHECK(lies_within({4}, {{4}, {0}}));
  CHECK_FALSE(lies_within({4}, {{3}, {2}}));
  CHECK_FALSE(lies_within({4}, {{-1}, {2}}));
  CHECK_FALSE(lies_within({4}, {{1}, {-1}}));
  CHECK_FALSE(lies_within({4}, {{1}, {INT64_MAX}}));
  CHECK_FALSE(lies_within({4}, {{INT64_MAX}, {INT64_MAX}}));
  CHECK_FALSE(lies_within({4}, {{0, 0}, {1, 1}}));
}

TEST_CASE("a slice's name states its position") {
  CHECK(slice_name("w", {4, 6}, {{0, 0}, {4, 6}}) == "w");
  CHECK(slice_name("w", {4, 6}, {{2, 0}, {2, 3}}) == "w[2:4,0:3]");
}

}  // namespace
}  // namespace llmtrain
