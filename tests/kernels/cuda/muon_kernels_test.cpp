// SPDX-License-Identifier: Apache-2.0
// Muon's kernels, run on the processor, against float64: all types, arrays that begin anywhere, none at all.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/optimizer/muon_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

// Elements, and where two arrays begin behind a boundary of packs.
struct Shape {
  std::size_t n, first = 0, second = 0;
};
const std::vector<Shape> shapes{{0}, {1}, {3, 2, 2}, {4}, {29, 1, 1}, {2050, 3, 3}, {1030, 0, 1}, {77, 2, 0}};

// A result in T of `operations` roundings to fp32 of numbers up to `size`.
template <class T>
bool is_far(double got, double want, double size, double operations) {
  const double of_type = sizeof(T) == 4 ? 0 : rounding<T> * std::abs(want);
  // The least numbers of fp16 are this far apart.
  return !(std::abs(got - want) <= operations * 0x1p-24 * size + of_type + 0x1p-25);
}

template <class T>
void check_mean(const Shape& s, bool is_in_place) {
  INFO(s.n << " elements");
  std::mt19937 engine{3};
  const Numbers<float> mean(s.n, s.first), result(s.n, s.second);
  const Numbers<T> gradients(s.n, s.second);
  mean.fill(engine);
  gradients.fill(engine);
  const std::vector<double> before = mean.copied();
  const Numbers<float>& to = is_in_place ? mean : result;
  const float momentum = 0.95F, share = 0.05F * 0.37F;
  cuda_muon_kernels.mean(
      {mean.data(), kind_of<T>, gradients.data(), to.data(), static_cast<std::int64_t>(s.n), momentum, share}, nullptr);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < s.n; ++i) {
    const double kept = double{momentum} * before[i], taken = double{share} * gradients[i];
    wrong += is_far<float>(to[i], kept + taken, std::abs(kept) + std::abs(taken), 2);
    wrong += !is_in_place && mean[i] != before[i];
  }
  CHECK(wrong == 0);
  CHECK_FALSE((mean.has_overrun() || result.has_overrun() || gradients.has_overrun()));
}

template <class T>
void check_normalize(const Shape& s, double sum_of_squares) {
  std::mt19937 engine{4};
  const Numbers<float> matrix(s.n, s.first);
  const Numbers<T> result(s.n, s.second);
  matrix.fill(engine, 1e-4F);  // within fp16 over the smallest norm
  const float smallest = 1e-7F;
  cuda_muon_kernels.normalize(
      {matrix.data(), &sum_of_squares, kind_of<T>, result.data(), static_cast<std::int64_t>(s.n), smallest}, nullptr);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < s.n; ++i) {
    const double want = matrix[i] / std::max(std::sqrt(sum_of_squares), double{smallest});
    wrong += is_far<T>(result[i], want, std::abs(want), 2);
  }
  CHECK(wrong == 0);
  CHECK_FALSE(result.has_overrun());
}

template <class T>
void check_polynomial(std::size_t side, std::size_t first, std::size_t second) {
  INFO("side " << side);
  std::mt19937 engine{5};
  const Numbers<T> gram(side * side, first), square(side * side, second);
  gram.fill(engine);
  square.fill(engine);
  const std::vector<double> before = square.copied();
  const MuonCoefficients c{3.4445F, -4.7750F, 2.0315F};
  cuda_muon_kernels.polynomial({kind_of<T>, gram.data(), square.data(), static_cast<std::int64_t>(side), c}, nullptr);
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < side; ++row)
    for (std::size_t column = 0; column < side; ++column) {
      const std::size_t i = row * side + column;
      const double unit = row == column ? double{c.unit} : 0, of_gram = double{c.gram} * gram[i],
                   of_square = double{c.square} * before[i];
      wrong += is_far<T>(square[i], unit + of_gram + of_square, unit + std::abs(of_gram) + std::abs(of_square), 3);
    }
  CHECK(wrong == 0);
  CHECK_FALSE((gram.has_overrun() || square.has_overrun()));
}

template <class T>
void check_scale(const Shape& s) {
  std::mt19937 engine{6};
  const Numbers<T> x(s.n, s.first);
  const Numbers<float> result(s.n, s.second);
  x.fill(engine);
  const float scale = 6.4F;
  cuda_muon_kernels.scale({kind_of<T>, x.data(), result.data(), static_cast<std::int64_t>(s.n), scale}, nullptr);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < s.n; ++i)
    wrong += is_far<float>(result[i], double{scale} * x[i], std::abs(double{scale} * x[i]), 1);
  CHECK(wrong == 0);
  CHECK_FALSE(result.has_overrun());
}

template <class T>
void check_step(const Shape& s, bool is_rounded) {
  std::mt19937 engine{7};
  const Numbers<float> weights(s.n, s.first), values(s.n, s.second);
  const Numbers<T> rounded(s.n, s.second);
  weights.fill(engine);
  values.fill(engine);
  const std::vector<double> before = weights.copied();
  const float decay = 0.999F, rate = 0.02F;
  cuda_muon_kernels.step({weights.data(), values.data(), kind_of<T>, is_rounded ? rounded.data() : nullptr,
                          static_cast<std::int64_t>(s.n), decay, rate},
                         nullptr);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < s.n; ++i) {
    const double kept = double{decay} * before[i], change = double{rate} * values[i];
    wrong += is_far<float>(weights[i], kept - change, std::abs(kept) + std::abs(change), 2);
    wrong += rounded[i] != (is_rounded ? double{widened(narrowed<T>(weights.data()[i]))} : 0);
  }
  CHECK(wrong == 0);
  CHECK_FALSE((weights.has_overrun() || rounded.has_overrun()));
}

template <class T>
void check_all() {
  for (const Shape& shape : shapes) {
    for (const bool is_in_place : {true, false}) check_mean<T>(shape, is_in_place);
    for (const double sum : {2.5, 1e-20, 0.0, 1e30}) check_normalize<T>(shape, sum);
    check_scale<T>(shape);
    for (const bool is_rounded : {true, false}) check_step<T>(shape, is_rounded);
  }
  for (const std::size_t side : {1U, 2U, 3U, 4U, 5U, 31U, 64U, 67U}) {
    check_polynomial<T>(side, 0, 0);
    check_polynomial<T>(side, 1, 1);
    check_polynomial<T>(side, 1, 2);
  }
}

}  // namespace

TEST_CASE("Muon's kernels are float64's up to the roundings of each element") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_all<float>(); }
  SECTION("bf16") { check_all<__nv_bfloat16>(); }
  SECTION("fp16") { check_all<__half>(); }
}

}  // namespace llmtrain::kernels
