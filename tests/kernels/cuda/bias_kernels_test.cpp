// SPDX-License-Identifier: Apache-2.0
// The kernels of biases' gradients, run on the processor, against float64: all types, pieces that end early, strips
// that do, rows that are not aligned.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/bias_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

struct Shape {
  std::int64_t rows;
  int width;
  bool is_shifted = false;
};

template <class T, class Gradient>
struct Case {
  explicit Case(const Shape& s) : shape(s) {
    std::mt19937 engine{7};
    dy.fill(engine);
    dbias.fill(engine);
  }

  void run(bool adds) const {
    cuda_bias_kernels.sum_rows({kind_of<T>, dy.data(), partials.data(), shape.rows, shape.width}, nullptr);
    cuda_bias_kernels.sum_pieces({kind_of<Gradient>, partials.data(), dbias.data(), shape.rows, shape.width, adds},
                                 nullptr);
  }
  bool has_overrun() const { return dy.has_overrun() || partials.has_overrun() || dbias.has_overrun(); }

  Shape shape;
  std::size_t width = static_cast<std::size_t>(shape.width), rows = static_cast<std::size_t>(shape.rows);
  Numbers<T> dy{rows * width, shape.is_shifted ? std::size_t{1} : 0};
  Numbers<float> partials{static_cast<std::size_t>(column_pieces(shape.rows)) * width};
  Numbers<Gradient> dbias{width};
};

template <class T, class Gradient>
void check(const Shape& shape, bool adds) {
  INFO(shape.rows << " rows of " << shape.width);
  const Case<T, Gradient> c(shape);
  const std::vector<double> before = c.dbias.copied();
  c.run(adds);
  std::size_t wrong = 0;
  for (std::size_t column = 0; column < c.width; ++column) {
    double sum = adds ? before[column] : 0, magnitude = std::abs(sum);
    for (std::size_t row = 0; row < c.rows; ++row) {
      sum += c.dy[row * c.width + column];
      magnitude += std::abs(c.dy[row * c.width + column]);
    }
    // No number meets more than this many additions: those of its thread, of its block, of its part and of the parts.
    const double additions = 16 + 8 + std::ceil(static_cast<double>(column_pieces(shape.rows)) / 8) + 8 + 1;
    const double bound = additions * 0x1p-24 * magnitude + rounding<Gradient> * std::abs(sum);
    wrong += !(std::abs(c.dbias[column] - sum) <= bound);
  }
  CHECK(wrong == 0);
  CHECK_FALSE(c.has_overrun());
}

template <class T, class Gradient>
void check_shapes() {
  for (const Shape& shape :
       std::vector<Shape>{{1, 1}, {3, 37}, {128, 64}, {129, 520}, {300, 96, true}, {1500, 24}, {7, 2056}, {260, 31}})
    for (const bool adds : {false, true}) check<T, Gradient>(shape, adds);
}

}  // namespace

TEST_CASE(
    "A GPU's gradients of biases are float64's up to the rounding of "
    "their sums") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_shapes<float, float>(); }
  SECTION("bf16") { check_shapes<__nv_bfloat16, float>(); }
  SECTION("bf16, as the gradient") { check_shapes<__nv_bfloat16, __nv_bfloat16>(); }
  SECTION("fp16") { check_shapes<__half, float>(); }
}

TEST_CASE(
    "A GPU's gradients of biases have the same bits in every order of "
    "threads and at every alignment") {
  std::vector<std::vector<double>> sums;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const ThreadOrder order(seed);
    const Case<__nv_bfloat16, float> c({300, 72, seed % 2 == 1});
    c.run(true);
    sums.push_back(c.dbias.copied());
  }
  for (const auto& other : sums) CHECK(other == sums.front());
}

}  // namespace llmtrain::kernels
