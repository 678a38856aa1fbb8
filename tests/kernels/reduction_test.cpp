// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/vector/reduction.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

double in_float64(const at::Tensor& x) { return x.to(at::kDouble).square().sum().item<double>(); }

template <int level>
double of_level(const at::Tensor& x) {
  const auto kernels = vector::sum_of_squares_kernels_for<level>();
  return x.scalar_type() == at::kFloat ? kernels.fp32(x.const_data_ptr<float>(), x.numel())
                                       : kernels.bf16(static_cast<const std::uint16_t*>(x.const_data_ptr()), x.numel());
}

TEST_CASE("the sum of squares of 1, 2, …, n is n(n+1)(2n+1)/6") {
  const std::int64_t n = GENERATE(0, 1, 2, 31, 32, 33, 255);
  at::Tensor x = at::ones({n}, at::kFloat).cumsum(0);
  const auto expected = static_cast<double>(n * (n + 1) * (2 * n + 1) / 6);
  CHECK(sum_of_squares(x) == expected);
  CHECK(sum_of_squares(x.to(at::kBFloat16)) == expected);  // integers up to 256 are exact in bf16
}

TEST_CASE("the sum of squares agrees with float64") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble);
  const std::int64_t n = GENERATE(1, 100, 16384, 16385, 100003);
  const at::Tensor x = at::randn({n}, at::kDouble).to(type);
  CHECK(sum_of_squares(x) == Approx(in_float64(x)).epsilon(1e-13));
}

TEST_CASE("the sum of squares neither overflows nor loses small terms") {
  CHECK(sum_of_squares(at::full({1000}, 1e30F, at::kFloat)) == Approx(1e63).epsilon(1e-6));
  at::Tensor x = at::full({1000001}, 1e-4F, at::kFloat);
  x[0] = 1000.0F;
  CHECK(sum_of_squares(x) == Approx(1e6 + 1e-2).epsilon(1e-12));
}

TEST_CASE("the sum of squares propagates NaN") {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t place : {0, 31, 40, 70}) {
      at::Tensor x = at::ones({71}, type);
      x[place] = std::nan("");
      CHECK(std::isnan(sum_of_squares(x)));
      x[place] = HUGE_VAL;
      CHECK(std::isinf(sum_of_squares(x)));
    }
  }
}

TEST_CASE("the sum of squares is bitwise the same at every instruction-set level and alignment") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const std::int64_t offset = GENERATE(0, 1, 3);
  const std::int64_t n = GENERATE(1, 7, 63, 64, 1000);
  const at::Tensor x = at::randn({offset + n}).to(type).narrow(0, offset, n);
  const double expected = sum_of_squares(x);  // smaller than a block: one call at the selected level
  CHECK(expected == Approx(in_float64(x)).epsilon(1e-13));
  at_every_level([&]<int level> { CHECK(of_level<level>(x) == expected); });
}

TEST_CASE("the sum of squares does not depend on the number of threads") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor x = at::randn({300007}).to(type);
  const double one = with_threads(1, [&] { return sum_of_squares(x); });
  CHECK(one == with_threads(2, [&] { return sum_of_squares(x); }));
  CHECK(one == with_threads(3, [&] { return sum_of_squares(x); }));
}

TEST_CASE("the sum of squares of a strided view is that of its elements") {
  const at::Tensor x = at::randn({64, 33}).t();
  CHECK(sum_of_squares(x) == Approx(in_float64(x)).epsilon(1e-13));
}

}  // namespace
}  // namespace llmtrain::kernels
