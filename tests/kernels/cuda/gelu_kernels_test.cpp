// SPDX-License-Identifier: Apache-2.0
// The kernels of GELU, run on the processor, against float64: both forms, all types, rows that are not aligned, with
// the sums of pieces of rows and without.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/gelu_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

// Some roundings of products and of an exponential function whose argument errs by them.
constexpr double fp32_bound = 32 * 0x1p-24;

struct Shape {
  std::int64_t rows;
  int width;
  bool is_shifted = false;
};

double value(GeluForm form, double x) {
  if (form == GeluForm::exact) return x * 0.5 * std::erfc(-x * std::sqrt(0.5));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double slope(GeluForm form, double x) {
  if (form == GeluForm::exact)
    return 0.5 * std::erfc(-x * std::sqrt(0.5)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

template <class T>
struct Case {
  Case(GeluForm f, const Shape& s) : form(f), shape(s) {
    std::mt19937 engine{7};
    dy.fill(engine);
    x.fill(engine, 3);
  }

  void forward() const {
    cuda_gelu_kernels.forward(
        {.element = kind_of<T>, .form = form, .x = x.data(), .out = y.data(), .rows = shape.rows, .width = shape.width},
        nullptr);
  }
  void backward(bool sums) const {
    cuda_gelu_kernels.backward({.element = kind_of<T>,
                                .form = form,
                                .dy = dy.data(),
                                .x = x.data(),
                                .out = dx.data(),
                                .partials = sums ? partials.data() : nullptr,
                                .rows = shape.rows,
                                .width = shape.width},
                               nullptr);
  }
  bool has_overrun() const {
    return dy.has_overrun() || x.has_overrun() || y.has_overrun() || dx.has_overrun() || partials.has_overrun();
  }

  GeluForm form;
  Shape shape;
  std::size_t width = static_cast<std::size_t>(shape.width), rows = static_cast<std::size_t>(shape.rows);
  std::size_t count = rows * width, shift = shape.is_shifted ? 1 : 0;
  Numbers<T> dy{count, shift}, x{count, shift}, y{count, shift}, dx{count, shift};
  Numbers<float> partials{static_cast<std::size_t>(column_pieces(shape.rows)) * width};
};

// The sums of pieces of the numbers that the kernel wrote, against float64.
template <class T>
std::size_t wrong_sums(const Case<T>& c) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < c.partials.size; ++i) {
    const std::size_t first = i / c.width * column_piece_rows, column = i % c.width;
    double sum = 0, magnitude = 0;
    for (std::size_t row = first; row < std::min<std::size_t>(first + column_piece_rows, c.rows); ++row) {
      sum += c.dx[row * c.width + column];
      magnitude += std::abs(c.dx[row * c.width + column]);
    }
    wrong += !(std::abs(c.partials[i] - sum) <= 24 * 0x1p-24 * magnitude);
  }
  return wrong;
}

template <class T>
void check(const Case<T>& c, bool sums) {
  c.forward();
  c.backward(sums);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < c.count; ++i) {
    wrong += differs(c.y[i], value(c.form, c.x[i]), fp32_bound + rounding<T>);
    wrong += differs(c.dx[i], c.dy[i] * slope(c.form, c.x[i]), fp32_bound + rounding<T>);
  }
  CHECK(wrong == 0);
  if (sums) CHECK(wrong_sums(c) == 0);
  CHECK_FALSE(c.has_overrun());
}

template <class T>
void check_shapes() {
  for (const GeluForm form : {GeluForm::exact, GeluForm::tanh})
    for (const Shape& shape :
         std::vector<Shape>{{3, 1}, {5, 37}, {130, 64}, {257, 24}, {3, 96, true}, {2, 2056}, {0, 16}, {2, 0}})
      for (const bool sums : {false, true}) {
        INFO(shape.rows << " rows of " << shape.width);
        check(Case<T>(form, shape), sums);
      }
}

}  // namespace

TEST_CASE(
    "A GPU's GELU, its gradient and that gradient's sums are float64's "
    "up to rounding") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_shapes<float>(); }
  SECTION("bf16") { check_shapes<__nv_bfloat16>(); }
  SECTION("fp16") { check_shapes<__half>(); }
}

TEST_CASE("A GPU's GELU is finite far out and passes NaN on") {
  const GeluForm form = GENERATE(GeluForm::exact, GeluForm::tanh);
  const Case<__nv_bfloat16> c(form, {1, 8});
  const float far[] = {-1e10F, -1e4F, -90, -20, 20, 90, 1e10F, NAN};
  for (std::size_t i = 0; i < 8; ++i) c.x.data()[i] = narrowed<__nv_bfloat16>(far[i]);
  c.forward();
  c.backward(false);
  for (std::size_t i = 0; i < 7; ++i) {
    INFO("at " << far[i]);
    CHECK(c.y[i] == (far[i] > 0 ? c.x[i] : 0));
    CHECK(c.dx[i] == (far[i] > 0 ? c.dy[i] : 0));
  }
  CHECK((std::isnan(c.y[7]) && std::isnan(c.dx[7])));
}

TEST_CASE("A GPU's GELU has the same bits in every order of threads and blocks") {
  std::vector<std::vector<double>> gradients, sums;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const ThreadOrder order(seed);
    const Case<__nv_bfloat16> c(GeluForm::tanh, {300, 72});
    c.backward(true);
    gradients.push_back(c.dx.copied());
    sums.push_back(c.partials.copied());
  }
  for (const auto& other : gradients) CHECK(other == gradients.front());
  for (const auto& other : sums) CHECK(other == sums.front());
}

}  // namespace llmtrain::kernels
