// SPDX-License-Identifier: Apache-2.0
// The kernels between tokens and their experts' rows, run on the processor, against loops over choices: copies and sums
// bit by bit, the gates' gradients up to float64's; rows in any order, choices without one, rows without a choice.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/moe/dispatch_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

struct Shape {
  std::int64_t tokens;
  int choices, width;
  std::int64_t spare = 0;  // rows that no choice has
  std::size_t shift = 0;   // elements by which the rows' memory is off the alignment of packs
};

constexpr float unread = NAN;

// Every fifth choice has no row. Rows without a choice hold NaN, and those that are written a number to be kept.
template <class T>
struct Case {
  explicit Case(const Shape& s) : shape(s) {
    std::mt19937 engine{5};
    for (const Numbers<T>* each : {&x, &rows, &dy}) each->fill(engine);
    gates.fill(engine);
    std::vector<std::int64_t> order(row_count);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, engine);
    for (std::size_t c = 0, next = 0; c < choices; ++c) row_of[c] = c % 5 == 3 ? -1 : order[next++];
    for (std::size_t r = 0; r < row_count; ++r) {
      if (is_taken(static_cast<std::int64_t>(r))) continue;
      for (std::size_t i = 0; i < width; ++i) rows.data()[r * width + i] = narrowed<T>(unread);
    }
    for (const Numbers<T>* each : {&copied, &drows})
      for (std::size_t i = 0; i < each->size; ++i) each->data()[i] = narrowed<T>(7);
  }

  bool is_taken(std::int64_t row) const {
    for (std::size_t c = 0; c < choices; ++c)
      if (row_of[c] == row) return true;
    return false;
  }
  ChoiceRows map() const {
    return {row_of.data(), shape.tokens, static_cast<std::int64_t>(row_count), shape.choices, shape.width};
  }
  void run() const {
    const KernelElement element = kind_of<T>;
    cuda_dispatch_kernels.dispatch({element, map(), x.data(), copied.data()}, nullptr);
    cuda_dispatch_kernels.combine({element, map(), rows.data(), gates.data(), y.data()}, nullptr);
    cuda_dispatch_kernels.combine({element, map(), rows.data(), nullptr, sums.data()}, nullptr);
    cuda_dispatch_kernels.combine_backward(
        {element, map(), dy.data(), rows.data(), gates.data(), drows.data(), dgates.data()}, nullptr);
  }
  bool has_overrun() const {
    for (const Numbers<T>* each : {&x, &rows, &dy, &copied, &y, &sums, &drows})
      if (each->has_overrun()) return true;
    return gates.has_overrun() || dgates.has_overrun() || row_of.has_overrun();
  }

  Shape shape;
  std::size_t width = static_cast<std::size_t>(shape.width), tokens = static_cast<std::size_t>(shape.tokens);
  std::size_t choices = tokens * static_cast<std::size_t>(shape.choices);
  std::size_t row_count = choices - (choices + 1) / 5 + static_cast<std::size_t>(shape.spare);
  test::ExactArray<std::int64_t> row_of{choices};
  Numbers<T> x{tokens * width}, rows{row_count * width, shape.shift}, dy{tokens * width};
  Numbers<T> copied{row_count * width, shape.shift}, y{tokens * width}, sums{tokens * width};
  Numbers<T> drows{row_count * width, shape.shift};
  Numbers<float> gates{choices}, dgates{choices};
};

// The sum of a token's rows by its gates, or of the rows alone, in the order of its choices.
template <class T>
double sum_of(const Case<T>& c, std::size_t token, std::size_t column, bool has_gates) {
  float sum = 0;
  const std::size_t k = c.choices / c.tokens;
  for (std::size_t choice = token * k; choice < (token + 1) * k; ++choice) {
    if (c.row_of[choice] < 0) continue;
    const float row = widened(c.rows.data()[static_cast<std::size_t>(c.row_of[choice]) * c.width + column]);
    sum = std::fma(has_gates ? c.gates.data()[choice] : 1, row, sum);
  }
  return static_cast<double>(widened(narrowed<T>(sum)));
}

template <class T>
void check_rows(const Case<T>& c) {
  std::vector<double> copied(c.row_count * c.width, 7), drows = copied;
  std::size_t wrong = 0;
  for (std::size_t choice = 0; choice < c.choices; ++choice) {
    const std::size_t token = choice * c.tokens / c.choices;
    double product = 0, size = 0;
    for (std::size_t i = 0; i < c.width && c.row_of[choice] >= 0; ++i) {
      const std::size_t place = static_cast<std::size_t>(c.row_of[choice]) * c.width + i;
      copied[place] = c.x[token * c.width + i];
      const double dy = c.dy[token * c.width + i];
      drows[place] =
          static_cast<double>(widened(narrowed<T>(c.gates.data()[choice] * widened(c.dy.data()[token * c.width + i]))));
      product += dy * c.rows[place];
      size += std::abs(dy * c.rows[place]);
    }
    // A lane's products, and five sums of lanes.
    const double roundings = static_cast<double>(c.width) / 32 + 8;
    wrong += !(std::abs(c.dgates[choice] - product) <= roundings * 0x1p-24 * size);
  }
  CHECK(wrong == 0);
  CHECK(c.copied.copied() == copied);
  CHECK(c.drows.copied() == drows);
}

template <class T>
void check_shapes() {
  // Rows of whole packs and not; more choices than are read at once; more packs than a warp has lanes; one of all.
  const std::vector<Shape> shapes{{1, 1, 1},        {9, 2, 16, 3},     {5, 3, 37, 1},   {40, 6, 8},
                                  {7, 2, 24, 2, 1}, {3, 9, 272},       {2, 1, 1032, 5}, {700, 2, 8, 4},
                                  {0, 2, 8},        {130, 4, 264, 70}, {4, 2, 0, 1}};
  for (const Shape& shape : shapes) {
    INFO(shape.tokens << " tokens of " << shape.width << ", " << shape.choices << " choices");
    const Case<T> c(shape);
    c.run();
    check_rows(c);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < c.tokens * c.width; ++i) {
      wrong += c.y[i] != sum_of(c, i / c.width, i % c.width, true);
      wrong += c.sums[i] != sum_of(c, i / c.width, i % c.width, false);
    }
    CHECK(wrong == 0);
    CHECK_FALSE(c.has_overrun());
  }
}

}  // namespace

TEST_CASE("A GPU copies tokens to their experts' rows and sums rows by gates in the order of the choices") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_shapes<float>(); }
  SECTION("bf16") { check_shapes<__nv_bfloat16>(); }
  SECTION("fp16") { check_shapes<__half>(); }
}

TEST_CASE("A GPU's gradients of gates have the same bits in every order of threads and blocks") {
  std::vector<std::vector<double>> gradients;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const ThreadOrder order(seed);
    const Case<__nv_bfloat16> c({50, 3, 1048, 2});
    c.run();
    gradients.push_back(c.dgates.copied());
  }
  for (const auto& other : gradients) CHECK(other == gradients.front());
}

}  // namespace llmtrain::kernels
