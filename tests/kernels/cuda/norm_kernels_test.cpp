// SPDX-License-Identifier: Apache-2.0
// The kernels of norms, run on the processor, against float64: all types, rows that are not aligned, none at all.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/norm_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

using llmtrain::test::ExactArray;

// Sums of up to 1031 terms of fp32 in at least 32 parts, then some roundings of numbers up to about 10.
constexpr double fp32_bound = 1e-5;

struct Shape {
  std::int64_t rows;
  int width;
  bool has_mean, has_bias, has_residual;
  bool is_shifted = false;
};

template <class T>
struct Case {
  explicit Case(const Shape& s) : shape(s), count(static_cast<std::size_t>(s.rows * s.width)) {
    for (const auto* array : {&x, &residual, &dy, &dx, &weight, &bias}) array->fill(engine);
    for (std::size_t i = 0; i < width(); ++i) dweight[i] = dbias[i] = normal(engine);
  }
  std::size_t width() const { return static_cast<std::size_t>(shape.width); }

  Shape shape;
  std::size_t count;
  std::mt19937 engine{7};
  std::normal_distribution<float> normal;
  Numbers<T> x{count}, residual{count}, dy{count}, y{count}, weight{width()}, bias{width()};
  Numbers<T> dx{count, shape.is_shifted ? 1U : 0U};  // off the alignment of packs
  ExactArray<float> mean{static_cast<std::size_t>(shape.rows)}, rstd{static_cast<std::size_t>(shape.rows)};
  ExactArray<float> dweight{width()}, dbias{width()};
  ExactArray<float> partials{static_cast<std::size_t>(norm_partials(shape.rows, shape.width, shape.has_mean)), NAN};

  void forward() const {
    cuda_norm_kernels.forward({kind_of<T>, x.data(), shape.has_residual ? residual.data() : nullptr, weight.data(),
                               shape.has_bias ? bias.data() : nullptr, y.data(), shape.has_mean ? mean.data() : nullptr,
                               rstd.data(), shape.rows, shape.width, 1e-5F},
                              nullptr);
  }
  void backward(bool adds = true) const {
    const T* of = shape.has_residual ? residual.data() : x.data();
    cuda_norm_kernels.backward(
        {kind_of<T>, dy.data(), of, shape.has_mean ? mean.data() : nullptr, rstd.data(), weight.data(), dx.data(),
         partials.data(), dweight.data(), shape.has_bias ? dbias.data() : nullptr, shape.rows, shape.width, adds},
        nullptr);
  }
  bool has_overrun() const {
    for (const auto* array : {&x, &residual, &dy, &dx, &y, &weight, &bias})
      if (array->has_overrun()) return true;
    return mean.has_overrun() || rstd.has_overrun() || dweight.has_overrun() || dbias.has_overrun() ||
           partials.has_overrun();
  }
};

std::vector<double> copied(const auto& numbers, std::size_t count) {
  std::vector<double> copy(count);
  for (std::size_t i = 0; i < count; ++i) copy[i] = static_cast<double>(numbers[i]);
  return copy;
}

struct Statistics {
  double mean = 0, rstd = 0;
};

template <class Row>
Statistics statistics_of(const Row& row, std::size_t width, bool has_mean) {
  Statistics s;
  if (has_mean) {
    for (std::size_t i = 0; i < width; ++i) s.mean += row(i) / static_cast<double>(width);
  }
  double squares = 0;
  for (std::size_t i = 0; i < width; ++i) squares += (row(i) - s.mean) * (row(i) - s.mean);
  s.rstd = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
  return s;
}

template <class T>
void check_forward(const Case<T>& c) {
  const std::vector<double> x = copied(c.x, c.count), residual = copied(c.residual, c.count);
  c.forward();
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(c.shape.rows); ++row) {
    const auto sum = [&](std::size_t i) {
      const std::size_t at = row * c.width() + i;
      if (!c.shape.has_residual) return x[at];
      return static_cast<double>(widened(narrowed<T>(static_cast<float>(residual[at]) + static_cast<float>(x[at]))));
    };
    const Statistics s = statistics_of(sum, c.width(), c.shape.has_mean);
    if (c.shape.has_mean) wrong += differs(c.mean[row], s.mean, fp32_bound);
    wrong += differs(c.rstd[row], s.rstd, fp32_bound);
    for (std::size_t i = 0; i < c.width(); ++i) {
      const std::size_t at = row * c.width() + i;
      const double y = (sum(i) - s.mean) * s.rstd * c.weight[i] + (c.shape.has_bias ? c.bias[i] : 0);
      wrong += differs(c.y[at], y, fp32_bound + rounding<T>);
      if (c.shape.has_residual) wrong += c.residual[at] != sum(i);
    }
  }
  CHECK(wrong == 0);
}

template <class T>
void check_backward(const Case<T>& c, bool adds) {
  const std::vector<double> dx = copied(c.dx, c.count);
  std::vector<double> dweight = copied(c.dweight, c.width()), dbias = copied(c.dbias, c.width());
  if (!adds) std::ranges::fill(dweight, 0);
  if (!adds && c.shape.has_bias) std::ranges::fill(dbias, 0);
  c.backward(adds);
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(c.shape.rows); ++row) {
    const auto at = [&](std::size_t i) { return row * c.width() + i; };
    const auto x = [&](std::size_t i) { return c.shape.has_residual ? c.residual[at(i)] : c.x[at(i)]; };
    const Statistics s = statistics_of(x, c.width(), c.shape.has_mean);
    double g_mean = 0, gh_mean = 0;
    const auto h = [&](std::size_t i) { return (x(i) - s.mean) * s.rstd; };
    for (std::size_t i = 0; i < c.width(); ++i) {
      const double g = c.dy[at(i)] * c.weight[i] / static_cast<double>(c.width());
      if (c.shape.has_mean) g_mean += g;
      gh_mean += g * h(i);
      dweight[i] += c.dy[at(i)] * h(i);
      if (c.shape.has_bias) dbias[i] += c.dy[at(i)];
    }
    for (std::size_t i = 0; i < c.width(); ++i) {
      const double own = (c.dy[at(i)] * c.weight[i] - h(i) * gh_mean - g_mean) * s.rstd;
      // A gradient is larger than what it comes to with the residual's: its error counts by its own size.
      wrong += differs(c.dx[at(i)], dx[at(i)] + own, (fp32_bound + rounding<T>)*(1 + std::abs(own)));
    }
  }
  for (std::size_t i = 0; i < c.width(); ++i) {
    wrong += differs(c.dweight[i], dweight[i], 2 * fp32_bound);
    wrong += differs(c.dbias[i], dbias[i], 2 * fp32_bound);
  }
  CHECK(wrong == 0);
}

template <class T>
void check_shapes() {
  // Rows of a warp, of a block, and of more packs than a block has threads; in whole packs and not; rows of one piece
  // of sums and of several.
  const std::vector<Shape> shapes{
      {3, 1, true, true, false},    {33, 48, true, true, true},    {5, 64, false, false, false, true},
      {70, 7, true, false, false},  {1, 1031, false, false, true}, {2, 600, true, true, false},
      {34, 96, false, false, true}, {0, 16, true, true, true},     {1, 1024, true, false, false},
      {33, 264, true, true, true},  {2, 8208, true, true, true}};
  for (const Shape& shape : shapes)
    for (const bool adds : {true, false}) {
      INFO(shape.rows << " rows of " << shape.width);
      const Case<T> c(shape);
      check_forward(c);
      check_backward(c, adds || shape.rows == 0);
      CHECK_FALSE(c.has_overrun());
    }
}

}  // namespace

TEST_CASE("A GPU's norms and their gradients are float64's up to fp32 sums and one rounding") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_shapes<float>(); }
  SECTION("bf16") { check_shapes<__nv_bfloat16>(); }
  SECTION("fp16") { check_shapes<__half>(); }
}

TEST_CASE("A GPU's norms have the same bits in every order of threads and blocks") {
  const Shape shape{70, GENERATE(72, 600, 1031), true, true, true};
  std::vector<std::vector<double>> seen;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const ThreadOrder order(seed);
    const Case<__nv_bfloat16> c(shape);
    c.forward();
    c.backward();
    std::vector<double> all = copied(c.y, c.count);
    for (const auto& part : {copied(c.dx, c.count), copied(c.dweight, c.width()), copied(c.dbias, c.width())})
      all.insert(all.end(), part.begin(), part.end());
    seen.push_back(std::move(all));
  }
  for (const auto& other : seen) CHECK(other == seen.front());
}

}  // namespace llmtrain::kernels
