// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/reduction/ordered_reduction.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/parallel/comm/numbers.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

const std::vector<ElementType> small_floats{ElementType::bfloat16, ElementType::float16, ElementType::float8_e4m3,
                                            ElementType::float8_e5m2};

// Reduces two arrays, given by their bits, into a third.
template <class Bits>
std::vector<Bits> reduce_bits(ElementType type, Reduction reduction, const std::vector<Bits>& left,
                              const std::vector<Bits>& right) {
  std::vector<Bits> result(left.size());
  const void* sources[] = {left.data(), right.data()};
  void* destinations[] = {result.data()};
  reduce_in_order({type, reduction, sources, destinations, static_cast<std::int64_t>(left.size())});
  return result;
}

bool is_same(double left, double right) { return left == right || (std::isnan(left) && std::isnan(right)); }

template <class Bits>
void check_all_patterns(ElementType type) {
  const unsigned patterns = 1u << (8 * sizeof(Bits));
  std::vector<Bits> every(patterns);
  for (unsigned i = 0; i < patterns; ++i) every[i] = static_cast<Bits>(i);
  const std::vector<Bits> other = reduce_bits<Bits>(type, Reduction::max, every, every);
  unsigned wrong = 0;
  for (unsigned i = 0; i < patterns; ++i) wrong += is_same(decode(type, other[i]), decode(type, i)) ? 0 : 1;
  CHECK(wrong == 0);
}

template <class Bits>
void check_sums(ElementType type) {
  std::mt19937 random(7);
  std::vector<Bits> left(20000), right(20000);
  for (std::size_t i = 0; i < left.size(); ++i) {
    left[i] = static_cast<Bits>(random());
    right[i] = static_cast<Bits>(random());
  }
  const std::vector<Bits> sums = reduce_bits<Bits>(type, Reduction::sum, left, right);
  unsigned wrong = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    double exact = static_cast<float>(decode(type, left[i])) + static_cast<float>(decode(type, right[i]));
    // Without infinities a sum saturates; what was NaN stays NaN.
    if (type == ElementType::float8_e4m3 && !std::isnan(exact)) exact = std::clamp(exact, -448.0, 448.0);
    const double expected = std::isnan(exact) ? exact : decode(type, encode(type, exact));
    wrong += is_same(decode(type, sums[i]), expected) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("every pattern of a small floating type keeps its value") {
  check_all_patterns<std::uint16_t>(ElementType::bfloat16);
  check_all_patterns<std::uint16_t>(ElementType::float16);
  check_all_patterns<std::uint8_t>(ElementType::float8_e4m3);
  check_all_patterns<std::uint8_t>(ElementType::float8_e5m2);
}

TEST_CASE("sums of small floating types are rounded to nearest, ties to even") {
  check_sums<std::uint16_t>(ElementType::bfloat16);
  check_sums<std::uint16_t>(ElementType::float16);
  check_sums<std::uint8_t>(ElementType::float8_e4m3);
  check_sums<std::uint8_t>(ElementType::float8_e5m2);
}

TEST_CASE("small floating types are summed in fp32 and rounded once") {
  for (const ElementType type : small_floats) {
    // Each step alone is lost by rounding; together they are not.
    Values big(type, 1), step(type, 1);
    big.set(0, 16);
    const double half_step = type == ElementType::bfloat16 ? 0.0625 : type == ElementType::float16 ? 0.0078125 : 1;
    step.set(0, type == ElementType::float8_e5m2 ? 2 : half_step);
    Values result(type, 1);
    const void* sources[] = {big.array().data, step.array().data, step.array().data};
    void* destinations[] = {result.array().data};
    reduce_in_order({type, Reduction::sum, sources, destinations, 1});
    CHECK(result.get(0) == 16 + 2 * step.get(0));
    CHECK(result.get(0) > 16);
  }
}

TEST_CASE("sums are computed in the order of the sources") {
  const float big = 1e8f, minus = -1e8f, one = 1;
  float result = 0;
  void* destinations[] = {&result};
  const void* first[] = {&big, &minus, &one};
  reduce_in_order({ElementType::float32, Reduction::sum, first, destinations, 1});
  CHECK(result == 1);
  const void* second[] = {&one, &big, &minus};
  reduce_in_order({ElementType::float32, Reduction::sum, second, destinations, 1});
  CHECK(result == 0);
}

TEST_CASE("sums of integers wrap, also beyond 32 bits") {
  const std::int32_t top = std::numeric_limits<std::int32_t>::max(), one = 1;
  std::int32_t result = 0;
  const void* sources[] = {&top, &one};
  void* destinations[] = {&result};
  reduce_in_order({ElementType::int32, Reduction::sum, sources, destinations, 1});
  CHECK(result == std::numeric_limits<std::int32_t>::min());
  const std::int64_t large = std::int64_t{1} << 60, three = 3;
  std::int64_t wide = 0;
  const void* wide_sources[] = {&large, &three};
  void* wide_destinations[] = {&wide};
  reduce_in_order({ElementType::int64, Reduction::sum, wide_sources, wide_destinations, 1});
  CHECK(wide == (std::int64_t{1} << 60) + 3);
}

TEST_CASE("max and min propagate NaN from any source") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Reduction reduction : {Reduction::max, Reduction::min}) {
    for (std::size_t place = 0; place < 3; ++place) {
      float values[] = {1, -2, 3};
      values[place] = nan;
      float result = 0;
      const void* sources[] = {&values[0], &values[1], &values[2]};
      void* destinations[] = {&result};
      reduce_in_order({ElementType::float32, reduction, sources, destinations, 1});
      CHECK(std::isnan(result));
    }
  }
}

TEST_CASE("any size and address, in place, into several destinations") {
  for (const ElementType type : all_types()) {
    for (const std::int64_t count : {0, 1, 7, 2047, 2048, 2049, 5000}) {
      const int offset = static_cast<int>(count % 3);
      Values first(type, count, offset), second(type, count, 1);
      Values expected(type, count);
      for (std::int64_t i = 0; i < count; ++i) {
        first.set(i, small_number(type, 0, i));
        second.set(i, small_number(type, 1, i));
        expected.set(i, std::max(small_number(type, 0, i), small_number(type, 1, i)));
      }
      const void* sources[] = {first.array().data, second.array().data};
      void* destinations[] = {first.array().data, second.array().data};
      reduce_in_order({type, Reduction::max, sources, destinations, count});
      CHECK(first == expected);
      CHECK(second == expected);
    }
  }
}
