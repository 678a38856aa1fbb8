// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/sample_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

namespace llmtrain {
namespace {

std::vector<std::uint64_t> values(std::uint64_t key, std::uint64_t size) {
  const Permutation order(key, size);
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = 0; i < size; ++i) result.push_back(order(i));
  return result;
}

bool is_bijection(const std::vector<std::uint64_t>& order) {
  std::vector<bool> seen(order.size(), false);
  for (const std::uint64_t value : order) {
    if (value >= order.size() || seen[value]) return false;
    seen[value] = true;
  }
  return true;
}

}  // namespace

TEST_CASE("A permutation is a bijection for every size from 1 to 2000") {
  for (std::uint64_t size = 1; size <= 2000; ++size) {
    if (!is_bijection(values(size * 31, size))) FAIL("size " << size);
  }
  SUCCEED();
}

TEST_CASE("A permutation is a bijection for large sizes") {
  for (const std::uint64_t size : {65536U, 65537U, 999983U, 1048575U}) {
    for (const std::uint64_t key : {0U, 99U}) CHECK(is_bijection(values(key, size)));
  }
}

TEST_CASE("A permutation of 2^62 elements stays in range and repeats nothing nearby") {
  const std::uint64_t size = (1ULL << 62) - 57;
  const Permutation order(5, size);
  std::vector<std::uint64_t> seen;
  for (std::uint64_t i = size - 1000; i < size; ++i) seen.push_back(order(i));
  for (const std::uint64_t value : seen) REQUIRE(value < size);
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

// Computed by a Python implementation of the published construction; resumed runs rely on these values.
TEST_CASE("A permutation's values do not change between versions") {
  CHECK(mix_bits(0) == 0xE220A8397B1DCDAFULL);
  CHECK(values(0, 10) == std::vector<std::uint64_t>{9, 7, 4, 1, 0, 5, 2, 6, 3, 8});
  CHECK(values(1234, 17) == std::vector<std::uint64_t>{2, 13, 11, 6, 1, 10, 9, 5, 14, 3, 7, 15, 4, 0, 16, 12, 8});
}

// Over many keys each element gets each place equally often: chi-square with (7 − 1)² degrees of freedom has mean 36
// and standard deviation 8.5.
TEST_CASE("A permutation's places are uniform over the keys") {
  constexpr std::uint64_t size = 7;
  constexpr std::uint64_t keys = 20000;
  std::vector<std::vector<double>> counts(size, std::vector<double>(size, 0));
  for (std::uint64_t key = 0; key < keys; ++key) {
    const Permutation order(key, size);
    for (std::uint64_t i = 0; i < size; ++i) ++counts[i][order(i)];
  }
  const double expected = static_cast<double>(keys) / size;
  double statistic = 0;
  for (const auto& row : counts) {
    for (const double count : row) statistic += (count - expected) * (count - expected) / expected;
  }
  CHECK(statistic < 36 + 5 * 8.5);
}

// In a random order of n elements, neighbours stay neighbours (i, i + 1 → j, j + 1) once on average.
TEST_CASE("A permutation separates neighbours") {
  double kept = 0;
  for (std::uint64_t key = 0; key < 200; ++key) {
    const auto order = values(key, 1000);
    for (std::size_t i = 1; i < order.size(); ++i) kept += order[i] == order[i - 1] + 1;
  }
  CHECK(kept / 200 == Approx(1).margin(5 / std::sqrt(200)));
}

}  // namespace llmtrain
