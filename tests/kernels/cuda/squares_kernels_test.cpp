// SPDX-License-Identifier: Apache-2.0
// The kernels of sums of squares, run on the processor, against float64: all types, odd lengths, arrays that begin
// anywhere, many pieces.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/optimizer/squares_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

template <class T>
double sum_of(const Numbers<T>& x) {
  const auto n = static_cast<std::int64_t>(x.size);
  const Numbers<double> partials(static_cast<std::size_t>(square_pieces(n)));
  const Numbers<double> sum(1);
  cuda_squares_kernels.sum({kind_of<T>, x.data(), n, partials.data(), sum.data()}, nullptr);
  CHECK_FALSE((x.has_overrun() || partials.values.has_overrun() || sum.values.has_overrun()));
  return *sum.data();
}

template <class T>
void check_lengths() {
  for (const std::size_t n : {0U, 1U, 3U, 8U, 29U, 4096U, 4097U, 40001U})
    for (const std::size_t before : {0U, 1U}) {
      INFO(n << " elements from " << before);
      std::mt19937 engine{9};
      const Numbers<T> x(n, before);
      x.fill(engine);
      double want = 0;
      for (std::size_t i = 0; i < n; ++i) want += x[i] * x[i];
      // A pack's sum of at most eight squares has eight roundings to fp32.
      CHECK(std::abs(sum_of(x) - want) <= 8 * 0x1p-24 * want);
    }
}

}  // namespace

TEST_CASE("A GPU's sums of squares are float64's up to the roundings of a pack") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_lengths<float>(); }
  SECTION("bf16") { check_lengths<__nv_bfloat16>(); }
  SECTION("fp16") { check_lengths<__half>(); }
}

TEST_CASE("A GPU's sum of squares has the same bits in every order of threads and wherever the array begins") {
  std::vector<double> sums;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const ThreadOrder order(seed);
    std::mt19937 engine{9};
    const Numbers<float> x(50003, seed % 4);
    x.fill(engine);
    sums.push_back(sum_of(x));
  }
  for (const double other : sums) CHECK(other == sums.front());
}

TEST_CASE("Small terms stay in a GPU's sum of squares, and what is not finite shows") {
  const Numbers<float> x(100001);
  for (std::size_t i = 0; i < x.size; ++i) x.data()[i] = 1e-4F;
  x.data()[0] = 1000;
  CHECK(sum_of(x) == Approx(1e6 + 1e-3).epsilon(1e-7).margin(0));
  CHECK(sum_of(x) > 1e6 + 0.5e-3);
  x.data()[777] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(sum_of(x)));
}

TEST_CASE("The pieces of a sum of squares are a function of the length, and few") {
  CHECK(square_pieces(0) == 1);
  CHECK(square_pieces(4096) == 1);
  CHECK(square_pieces(4097) == 2);
  CHECK(square_pieces(std::int64_t{1} << 40) == 1024);
}

}  // namespace llmtrain::kernels
