// SPDX-License-Identifier: Apache-2.0
// The kernel of rotary positions, run on the processor, against float64: all types, heads of odd widths, slices.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/rope_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

// Two products and their sum.
constexpr double fp32_bound = 4 * 0x1p-24;

// Heads first_head … first_head + heads − 1 of [tokens, all_heads, 2·half] are rotated.
struct Shape {
  std::int64_t tokens, sequence_length;
  int all_heads, first_head, heads, half;
  std::size_t shift = 0;  // elements by which x is off the alignment of packs
  int gap = 0;            // elements between tokens
};

template <class T>
struct Case {
  explicit Case(const Shape& s) : shape(s) {
    std::mt19937 engine{5};
    x.fill(engine);
    std::uniform_real_distribution<float> angle(-4, 4);
    for (std::size_t i = 0; i < cosine.size; ++i) {
      const float a = angle(engine);
      cosine.data()[i] = std::cos(a);
      sine.data()[i] = std::sin(a);
    }
  }

  std::int64_t token_stride() const { return std::int64_t{shape.all_heads} * 2 * shape.half + shape.gap; }
  void rotate(float direction) const {
    cuda_rope_kernels.rotate(
        {kind_of<T>, x.data() + shape.first_head * 2 * shape.half, cosine.data(), sine.data(), shape.tokens,
         shape.heads, shape.half, token_stride(), 2 * shape.half, shape.sequence_length, direction},
        nullptr);
  }

  Shape shape;
  std::size_t positions = static_cast<std::size_t>(std::min(shape.tokens, shape.sequence_length));
  Numbers<T> x{static_cast<std::size_t>(shape.tokens * token_stride()), shape.shift};
  Numbers<float> cosine{positions * static_cast<std::size_t>(shape.half)}, sine{cosine.size};
};

// x of before, with its heads rotated in float64.
template <class T>
std::vector<double> rotated(const Case<T>& c, float direction) {
  std::vector<double> x = c.x.copied();
  const Shape& s = c.shape;
  for (std::int64_t token = 0; token < s.tokens; ++token)
    for (int head = s.first_head; head < s.first_head + s.heads; ++head)
      for (int i = 0; i < s.half; ++i) {
        double& low = x[static_cast<std::size_t>(token * c.token_stride() + head * 2 * s.half + i)];
        double& high = (&low)[s.half];
        const auto angle = static_cast<std::size_t>(token % s.sequence_length * s.half + i);
        const double cosine = c.cosine[angle], sine = direction * c.sine[angle], old = low;
        low = old * cosine - high * sine;
        high = high * cosine + old * sine;
      }
  return x;
}

template <class T>
void check_shapes() {
  const float direction = GENERATE(1.0F, -1.0F);
  // Queries and keys before values, keys alone, all; sequences that repeat, one that ends early, one per token; halves
  // of whole packs and not; many tokens; rows off the alignment, by their address or their stride; none.
  const std::vector<Shape> shapes{{6, 3, 6, 0, 4, 8},       {7, 5, 5, 3, 1, 16},     {4, 4, 2, 0, 2, 5},
                                  {1, 9, 1, 0, 1, 1},       {600, 100, 4, 1, 2, 8},  {3, 3, 3, 0, 2, 8, 1},
                                  {3, 2, 3, 1, 2, 8, 0, 1}, {2, 2, 3, 0, 3, 12},     {3, 3, 40, 0, 36, 64},
                                  {0, 4, 2, 0, 2, 8},       {3, 3, 3, 0, 2, 8, 0, 8}};
  for (const Shape& shape : shapes) {
    INFO(shape.tokens << " tokens, " << shape.heads << " heads of twice " << shape.half);
    const Case<T> c(shape);
    const std::vector<double> before = c.x.copied(), want = rotated(c, direction);
    c.rotate(direction);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < want.size(); ++i)
      wrong += want[i] == before[i] ? c.x[i] != before[i] : differs(c.x[i], want[i], fp32_bound + rounding<T>);
    CHECK(wrong == 0);
    CHECK_FALSE(c.x.has_overrun());
  }
}

}  // namespace

TEST_CASE("A GPU's rotations are float64's up to one rounding, and leave the other heads alone") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_shapes<float>(); }
  SECTION("bf16") { check_shapes<__nv_bfloat16>(); }
  SECTION("fp16") { check_shapes<__half>(); }
}

TEST_CASE("A GPU's rotations have the same bits in every order of threads and blocks") {
  std::vector<std::vector<double>> seen;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const ThreadOrder order(seed);
    const Case<__nv_bfloat16> c({700, 350, 3, 0, 2, 16});
    c.rotate(1);
    seen.push_back(c.x.copied());
  }
  for (const auto& other : seen) CHECK(other == seen.front());
}

}  // namespace llmtrain::kernels
