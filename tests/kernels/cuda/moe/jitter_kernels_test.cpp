// SPDX-License-Identifier: Apache-2.0
// The kernel of jitter, run on the processor: factors by the words of each counter, in float64 and rounded twice.
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/moe/jitter_kernels.h"
#include "kernels/random/philox.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

constexpr std::uint64_t key = 0x0123456789ABCDEF;
constexpr double amplitude = 0.3;

struct Shape {
  std::int64_t length, runs, first, stride;
  bool is_shifted = false;
};

template <class T>
struct Case {
  Case(const Shape& s, std::uint64_t seed) : shape(s) {
    std::mt19937 engine{static_cast<std::mt19937::result_type>(seed)};
    x.fill(engine);
  }

  void run(float* to) const {
    cuda_jitter_kernels.jitter({.element = kind_of<T>,
                                .x = x.data(),
                                .out = to,
                                .length = shape.length,
                                .runs = shape.runs,
                                .first = shape.first,
                                .stride = shape.stride,
                                .key = key,
                                .amplitude = amplitude},
                               nullptr);
  }
  float expected(double value, std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    const auto element = static_cast<std::uint64_t>(shape.first + at / shape.length * shape.stride + at % shape.length);
    const std::uint32_t word = philox(key, element / 4, 0)[element % 4];
    // The middle of the word's share of (−1, 1); nothing rounds it. Memory keeps a compiler from fusing what follows.
    volatile double product = amplitude * ((word + 0.5) / 2147483648.0 - 1), factor = 1 + product;
    return static_cast<float>(value * factor);
  }

  Shape shape;
  std::size_t count = static_cast<std::size_t>(shape.length * shape.runs), shift = shape.is_shifted ? 1 : 0;
  Numbers<T> x{count, shift};
  Numbers<float> out{count, shift};
};

template <class T>
std::size_t wrong_of(const Case<T>& c, const std::vector<double>& before, const float* got) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < c.count; ++i) wrong += got[i] != c.expected(before[i], i);
  return wrong;
}

template <class T>
void check(const Shape& shape, std::uint64_t seed) {
  INFO(shape.runs << " runs of " << shape.length << " from " << shape.first << ", " << shape.stride << " apart");
  const Case<T> c(shape, seed);
  const std::vector<double> before = c.x.copied();
  c.run(c.out.data());
  CHECK(wrong_of(c, before, c.out.data()) == 0);
  CHECK(before == c.x.copied());
  if constexpr (sizeof(T) == sizeof(float)) {
    c.run(c.x.data());
    CHECK(wrong_of(c, before, c.x.data()) == 0);
  }
  CHECK_FALSE((c.x.has_overrun() || c.out.has_overrun()));
}

template <class T>
void check_shapes(std::uint64_t seed) {
  // Runs of whole packs and not; within a counter; beyond 32 bits of counters and of elements; off the alignment of
  // packs; runs in one tensor's middle; none at all.
  const std::vector<Shape> shapes{{4096, 1, 0, 0},   {2056, 1, (std::int64_t{1} << 34) - 8, 0},
                                  {77, 1, 3, 0},     {2000, 1, (std::int64_t{1} << 34) - 2, 0},
                                  {64, 5, 128, 192}, {64, 3, 0, std::int64_t{1} << 33},
                                  {64, 5, 128, 190}, {3, 9, 1, 7},
                                  {1, 1, 5, 0},      {64, 3, 64, 64, true},
                                  {0, 4, 0, 8},      {12, 2, 4, 20}};
  for (const Shape& shape : shapes) check<T>(shape, seed);
}

}  // namespace

TEST_CASE("A GPU's jitter has the words' factors and the CPU's rounding") {
  const std::uint64_t seed = GENERATE(thread_orders());
  const ThreadOrder order(seed);
  SECTION("fp32") { check_shapes<float>(seed); }
  SECTION("bf16") { check_shapes<__nv_bfloat16>(seed); }
  SECTION("fp16") { check_shapes<__half>(seed); }
}

}  // namespace llmtrain::kernels
