// SPDX-License-Identifier: Apache-2.0
// The kernel that joins gradients of heads, run on the processor, against float64: all types, heads of odd widths,
// slices.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/joined_heads_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

// Two products and their sum.
constexpr double fp32_bound = 4 * 0x1p-24;

struct Shape {
  std::int64_t tokens, sequence_length;
  int heads, kv_heads, half;
  bool is_rotated = true;
  int gap = 0;            // elements between tokens
  std::size_t shift = 0;  // elements by which the operands are off the alignment of packs
};

template <class T>
struct Case {
  explicit Case(const Shape& s) : shape(s) {
    std::mt19937 engine{11};
    for (const auto* x : {&query, &key, &value}) x->fill(engine);
    std::uniform_real_distribution<float> angle(-4, 4);
    for (std::size_t i = 0; i < cosine.size; ++i) {
      const float a = angle(engine);
      cosine.data()[i] = std::cos(a);
      sine.data()[i] = std::sin(a);
    }
  }

  std::int64_t stride(int heads) const { return std::int64_t{heads} * 2 * shape.half + shape.gap; }
  std::size_t size(int heads) const { return static_cast<std::size_t>(shape.tokens * stride(heads)); }
  std::size_t joined_size() const {
    return static_cast<std::size_t>(shape.tokens * (shape.heads + 2 * shape.kv_heads) * 2 * shape.half);
  }
  HeadsOperand operand(const Numbers<T>& x, int heads) const {
    return {x.data(), heads, stride(heads), 2 * shape.half};
  }
  void join() const {
    cuda_joined_heads_kernels.join(
        {kind_of<T>, operand(query, shape.heads), operand(key, shape.kv_heads), operand(value, shape.kv_heads),
         joined.data(), shape.is_rotated ? cosine.data() : nullptr, shape.is_rotated ? sine.data() : nullptr,
         shape.tokens, shape.half, shape.sequence_length},
        nullptr);
  }
  bool has_overrun() const {
    for (const auto* x : {&query, &key, &value, &joined})
      if (x->has_overrun()) return true;
    return false;
  }

  Shape shape;
  std::size_t positions = static_cast<std::size_t>(std::min(shape.tokens, shape.sequence_length));
  Numbers<T> query{size(shape.heads), shape.shift}, key{size(shape.kv_heads), shape.shift};
  Numbers<T> value{size(shape.kv_heads)}, joined{joined_size(), shape.shift};
  Numbers<float> cosine{positions * static_cast<std::size_t>(shape.half)}, sine{cosine.size};
};

// Calls compare(got, want, whether it was rotated) for each element.
template <class T, class Compare>
void over_elements(const Case<T>& c, Compare compare) {
  const Shape& s = c.shape;
  const int all = s.heads + 2 * s.kv_heads;
  for (std::int64_t token = 0; token < s.tokens; ++token)
    for (int head = 0; head < all; ++head) {
      const bool is_query = head < s.heads, is_key = !is_query && head < s.heads + s.kv_heads;
      const Numbers<T>& from = is_query ? c.query : is_key ? c.key : c.value;
      const int own = is_query ? head : is_key ? head - s.heads : head - s.heads - s.kv_heads;
      const std::int64_t first = token * c.stride(is_query ? s.heads : s.kv_heads) + own * 2 * s.half;
      const std::int64_t to = (token * all + head) * 2 * s.half;
      const bool turns = s.is_rotated && (is_query || is_key);
      for (int i = 0; i < s.half; ++i) {
        const auto at = [](std::int64_t place) { return static_cast<std::size_t>(place); };
        const double low = from[at(first + i)], high = from[at(first + s.half + i)];
        const std::size_t angle = turns ? at(token % s.sequence_length * s.half + i) : 0;
        const double cosine = turns ? c.cosine[angle] : 1, sine = turns ? -c.sine[angle] : 0;
        compare(c.joined[at(to + i)], low * cosine - high * sine, turns);
        compare(c.joined[at(to + s.half + i)], high * cosine + low * sine, turns);
      }
    }
}

template <class T>
void check_shapes() {
  // Grouped heads and not; sequences that repeat, one that ends early; halves of whole packs and not; many tokens; rows
  // off the alignment, by their address or their stride; nothing rotated; none.
  const std::vector<Shape> shapes{
      {6, 3, 4, 2, 8},        {7, 5, 3, 3, 16},         {4, 4, 2, 1, 5},          {1, 9, 1, 1, 1},
      {600, 100, 4, 1, 8},    {5, 5, 2, 2, 8, true, 3}, {5, 2, 2, 1, 8, true, 8}, {3, 3, 2, 1, 8, true, 0, 1},
      {9, 4, 3, 1, 8, false}, {3, 3, 30, 5, 64},        {0, 4, 2, 2, 8}};
  for (const Shape& shape : shapes) {
    INFO(shape.tokens << " tokens, " << shape.heads << " and " << shape.kv_heads << " heads of twice " << shape.half);
    const Case<T> c(shape);
    c.join();
    std::size_t wrong = 0;
    over_elements(c, [&](double got, double want, bool turns) {
      wrong += turns ? differs(got, want, fp32_bound + rounding<T>) : got != want;
    });
    CHECK(wrong == 0);
    CHECK_FALSE(c.has_overrun());
  }
}

}  // namespace

TEST_CASE("A GPU joins gradients of heads and rotates those of queries and keys back") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_shapes<float>(); }
  SECTION("bf16") { check_shapes<__nv_bfloat16>(); }
  SECTION("fp16") { check_shapes<__half>(); }
}

}  // namespace llmtrain::kernels
