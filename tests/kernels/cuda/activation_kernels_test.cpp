// SPDX-License-Identifier: Apache-2.0
// The kernels of swiglu, run on the processor, against float64: all types, rows that are not aligned, none at all.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/activation_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

// Some roundings of a product of up to five factors.
constexpr double fp32_bound = 16 * 0x1p-24;

struct Shape {
  std::int64_t rows;
  int width;
  bool is_shifted = false;
  bool is_apart = false;  // gate and up lie by themselves
};

template <class T>
struct Case {
  explicit Case(const Shape& s) : shape(s) {
    std::mt19937 engine{7};
    dy.fill(engine);
    x.fill(engine, 3);  // gates on both sides of where the logistic function is steep
  }

  SwigluArguments arguments() const {
    return {.element = kind_of<T>,
            .dy = dy.data(),
            .gate = x.data(),
            .up = x.data() + to_up,
            .y = y.data(),
            .dgate = dx.data(),
            .dup = dx.data() + to_up,
            .rows = shape.rows,
            .stride = static_cast<std::int64_t>(stride),
            .width = shape.width};
  }
  void forward() const { cuda_activation_kernels.swiglu_forward(arguments(), nullptr); }
  void backward() const { cuda_activation_kernels.swiglu_backward(arguments(), nullptr); }
  // Where the gate of element i of y is, in x and in its gradient.
  std::size_t gate_of(std::size_t i) const { return i / width * stride + i % width; }
  bool has_overrun() const { return dy.has_overrun() || x.has_overrun() || y.has_overrun() || dx.has_overrun(); }

  Shape shape;
  std::size_t width = static_cast<std::size_t>(shape.width);
  std::size_t count = static_cast<std::size_t>(shape.rows) * width;
  std::size_t shift = shape.is_shifted ? 1 : 0;
  std::size_t stride = shape.is_apart ? width : 2 * width, to_up = shape.is_apart ? count : width;
  Numbers<T> dy{count}, x{2 * count}, y{count, shift}, dx{2 * count, shift};
};

template <class T>
void check(const Case<T>& c) {
  c.forward();
  c.backward();
  const auto is_wrong = [](double got, double want) { return differs(got, want, fp32_bound + rounding<T>); };
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < c.count; ++i) {
    const std::size_t gate = c.gate_of(i), up = gate + c.to_up;
    const double g = c.x[gate], u = c.x[up], d = c.dy[i], s = 1 / (1 + std::exp(-g));
    wrong += is_wrong(c.y[i], g * s * u);
    wrong += is_wrong(c.dx[gate], d * u * s * (1 + g * (1 - s)));
    wrong += is_wrong(c.dx[up], d * g * s);
  }
  CHECK(wrong == 0);
  CHECK_FALSE(c.has_overrun());
}

template <class T>
void check_shapes() {
  // Rows of whole packs and not; tiles of many rows, of one, and one that ends early; more packs than a tile has.
  const std::vector<Shape> shapes{{3, 1},    {5, 37},          {70, 64}, {257, 128}, {3, 96, true}, {1, 2056},
                                  {2, 1031}, {1, 4112, false}, {0, 16},  {2, 0},     {9, 264}};
  for (Shape shape : shapes)
    for (const bool is_apart : {false, true}) {
      shape.is_apart = is_apart;
      INFO(shape.rows << " rows of " << shape.width << (is_apart ? ", apart" : ""));
      check(Case<T>(shape));
    }
}

}  // namespace

TEST_CASE("A GPU's swiglu and its gradient are float64's up to one rounding") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_shapes<float>(); }
  SECTION("bf16") { check_shapes<__nv_bfloat16>(); }
  SECTION("fp16") { check_shapes<__half>(); }
}

TEST_CASE("A GPU's swiglu is finite for large gates and passes NaN on") {
  const Case<__nv_bfloat16> c({2, 8});
  const float gates[] = {-1e30F, -1e4F, -90, -88, 88, 90, 1e4F, NAN};
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t i = 0; i < 8; ++i) c.x.data()[row * 16 + i] = narrowed<__nv_bfloat16>(gates[i]);
  c.forward();
  c.backward();
  for (std::size_t i = 0; i < 16; ++i) {
    INFO("gate " << gates[i % 8]);
    const std::size_t gate = i / 8 * 16 + i % 8;
    const double linear = gates[i % 8] > 0 ? 1 : 0;  // so far out, the gate passes or does not
    if (i % 8 == 7) {
      CHECK((std::isnan(c.y[i]) && std::isnan(c.dx[gate]) && std::isnan(c.dx[gate + 8])));
      continue;
    }
    CHECK_FALSE(differs(c.y[i], linear * c.x[gate] * c.x[gate + 8], rounding<__nv_bfloat16>));
    CHECK_FALSE(differs(c.dx[gate], linear * c.dy[i] * c.x[gate + 8], rounding<__nv_bfloat16>));
    CHECK_FALSE(differs(c.dx[gate + 8], linear * c.dy[i] * c.x[gate], rounding<__nv_bfloat16>));
  }
}

TEST_CASE("A GPU's swiglu has the same bits in every order of threads and blocks") {
  std::vector<std::vector<double>> values, gradients;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const ThreadOrder order(seed);
    const Case<__nv_bfloat16> c({300, 72});
    c.forward();
    c.backward();
    values.push_back(c.y.copied());
    gradients.push_back(c.dx.copied());
  }
  for (const auto& other : values) CHECK(other == values.front());
  for (const auto& other : gradients) CHECK(other == gradients.front());
}

}  // namespace llmtrain::kernels
