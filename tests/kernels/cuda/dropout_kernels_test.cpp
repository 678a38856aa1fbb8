// SPDX-License-Identifier: Apache-2.0
// The kernel of dropout, run on the processor: the words of each counter decide, and values are rounded where the CPU
// rounds them.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/dropout_kernels.h"
#include "kernels/random/philox.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

constexpr std::uint64_t key = 0x0123456789ABCDEF;
constexpr std::uint32_t threshold = 0x4CCCCCCD;  // 0.3
constexpr float scale = 1 / 0.7F;

struct Shape {
  std::int64_t length, runs, first, stride;
  bool is_shifted = false;
};

template <class T>
struct Case {
  explicit Case(const Shape& s) : shape(s) {
    std::mt19937 engine{7};
    x.fill(engine);
    residual.fill(engine);
  }

  void run(bool adds, bool in_place) const {
    cuda_dropout_kernels.drop({.element = kind_of<T>,
                               .x = x.data(),
                               .residual = adds ? residual.data() : nullptr,
                               .out = in_place ? x.data() : out.data(),
                               .length = shape.length,
                               .runs = shape.runs,
                               .first = shape.first,
                               .stride = shape.stride,
                               .key = key,
                               .threshold = threshold,
                               .scale = scale},
                              nullptr);
  }
  bool is_dropped(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    const auto element = static_cast<std::uint64_t>(shape.first + at / shape.length * shape.stride + at % shape.length);
    return philox(key, element / 4, 0)[element % 4] < threshold;
  }
  // A product of two numbers of 24 bits is exact in float64, and each result is rounded as it would be in memory.
  double expected(double value, std::size_t i, bool adds) const {
    const auto kept = is_dropped(i) ? T{} : narrowed<T>(static_cast<float>(value * static_cast<double>(scale)));
    if (!adds) return static_cast<double>(widened(kept));
    return static_cast<double>(widened(narrowed<T>(widened(kept) + static_cast<float>(residual[i]))));
  }

  Shape shape;
  std::size_t count = static_cast<std::size_t>(shape.length * shape.runs), shift = shape.is_shifted ? 1 : 0;
  Numbers<T> x{count, shift}, residual{count, shift}, out{count, shift};
};

template <class T>
void check(const Shape& shape, bool adds, bool in_place) {
  INFO(shape.runs << " runs of " << shape.length << " from " << shape.first << ", " << shape.stride << " apart");
  const Case<T> c(shape);
  const std::vector<double> before = c.x.copied();
  c.run(adds, in_place);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < c.count; ++i) {
    wrong += (in_place ? c.x : c.out)[i] != c.expected(before[i], i, adds);
    if (!in_place) wrong += c.x[i] != before[i];
  }
  CHECK(wrong == 0);
  CHECK_FALSE((c.x.has_overrun() || c.residual.has_overrun() || c.out.has_overrun()));
}

template <class T>
void check_shapes() {
  // Runs of whole packs and not; within a counter; beyond 32 bits of counters; runs in one tensor's middle; none at
  // all.
  const std::vector<Shape> shapes{{4096, 1, 0, 0},   {2056, 1, (std::int64_t{1} << 34) - 8, 0},
                                  {77, 1, 3, 0},     {2000, 1, (std::int64_t{1} << 34) - 2, 0},
                                  {64, 1, 2, 0},     {64, 5, 128, 192},
                                  {64, 5, 128, 190}, {3, 9, 1, 7},
                                  {1, 1, 5, 0},      {64, 3, 64, 64, true},
                                  {0, 4, 0, 8},      {12, 2, 4, 20}};
  for (const Shape& shape : shapes)
    for (const bool adds : {false, true})
      for (const bool in_place : {false, true}) check<T>(shape, adds, in_place);
}

}  // namespace

TEST_CASE("A GPU's dropout has the words' masks and the CPU's rounding") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_shapes<float>(); }
  SECTION("bf16") { check_shapes<__nv_bfloat16>(); }
  SECTION("fp16") { check_shapes<__half>(); }
}

TEST_CASE("A GPU's dropout turns what it drops into 0, whatever it was, and keeps the rest") {
  const Case<__nv_bfloat16> c({256, 1, 0, 0});
  for (std::size_t i = 0; i < c.count; ++i)
    c.x.data()[i] = narrowed<__nv_bfloat16>(i % 2 == 0 ? NAN : std::numeric_limits<float>::infinity());
  c.run(false, false);
  for (std::size_t i = 0; i < c.count; ++i) CHECK(std::isfinite(c.out[i]) == c.is_dropped(i));
}

}  // namespace llmtrain::kernels
