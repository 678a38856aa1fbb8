// SPDX-License-Identifier: Apache-2.0
// Arrays of more than 2³¹ elements for kernels that run on the processor: all zeros but for their last rows, which a
// small array of these rows alone has, too. A kernel that computes rows apart, or adds them up, then has the same last
// rows or sums of both. Indices that are too narrow end in undefined behaviour, a fault or other numbers.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/cuda/device/elements.h"
#include "tests/cuda_on_host/machine/launch.h"
#include "tests/cuda_on_host/sparse_array.h"
#include "tests/kernels/cuda/kernel_numbers.h"

namespace llmtrain::kernels {

using Values = std::vector<double>;

constexpr std::int64_t beyond_int = std::int64_t{1} << 31;

// Blocks at the beginning and the end of grids.
struct Edges {
  std::size_t first = 0, last = 0;
};

// While this lives, these blocks of each launch run alone.
class EdgeBlocks {
 public:
  explicit EdgeBlocks(const Edges& edges) { set(edges); }
  ~EdgeBlocks() { set({}); }
  EdgeBlocks(const EdgeBlocks&) = delete;
  EdgeBlocks& operator=(const EdgeBlocks&) = delete;

 private:
  static void set(const Edges& edges) {
    cuda_on_host::options.first_blocks = edges.first;
    cuda_on_host::options.last_blocks = edges.last;
  }
};

template <class T>
double number_of(T x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, __half>) return widened(x);
  return static_cast<double>(x);
}

// [rows, width], of which the last `filled` rows are normal random numbers of a seed, and the others 0.
template <class T>
class HugeRows {
 public:
  HugeRows(std::int64_t rows, std::int64_t width) : count_(rows * width), array_(static_cast<std::size_t>(count_)) {}
  HugeRows(std::int64_t rows, std::int64_t width, std::int64_t filled, unsigned seed) : HugeRows(rows, width) {
    std::mt19937 engine{seed};
    std::normal_distribution<float> normal;
    for (std::int64_t i = count_ - filled * width; i < count_; ++i) data()[i] = narrowed<T>(normal(engine));
  }

  T* data() const { return array_.data(); }
  T& from_end(std::int64_t i) const { return data()[count_ - i]; }
  // The first or last `count` elements.
  Values first(std::int64_t count) const { return part(0, count); }
  Values last(std::int64_t count) const { return part(count_ - count, count_); }

 private:
  Values part(std::int64_t begin, std::int64_t end) const {
    Values numbers;
    for (std::int64_t i = begin; i < end; ++i) numbers.push_back(number_of(data()[i]));
    return numbers;
  }

  std::int64_t count_;
  test::SparseArray<T> array_;
};

inline Values joined(std::initializer_list<Values> lists) {
  Values all;
  for (const Values& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// `outcome(rows)`: what a kernel makes of the last of so many rows. `edges`: among them the blocks of the last rows,
// which are the first ones where a grid is run through again.
template <class Outcome>
void check_last_rows(std::int64_t huge, std::int64_t filled, const Edges& edges, Outcome outcome) {
  const Values want = outcome(filled);
  const EdgeBlocks those(edges);
  const Values got = outcome(huge);
  REQUIRE_FALSE(want.empty());
  const bool has_content = std::ranges::any_of(want, [](double x) { return x != 0; });
  CHECK(has_content);
  REQUIRE(got.size() == want.size());
  const auto at = std::ranges::mismatch(want, got).in1;
  INFO("from number " << at - want.begin() << " of " << want.size() << " on");
  CHECK(at == want.end());
}

}  // namespace llmtrain::kernels
