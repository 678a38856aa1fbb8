// SPDX-License-Identifier: Apache-2.0
#include "kernels/moe/jitter.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>

#include "tests/kernels/tensor_error.h"
#include "tests/kernels/thread_count.h"

namespace llmtrain::kernels {
namespace {

at::Tensor factors(std::int64_t count, const Jitter& jitter, at::ScalarType type = at::kDouble) {
  at::Tensor x = at::ones({count}, type);
  jitter_(x, jitter);
  return x;
}

TEST_CASE("factors of jitter are uniform around 1") {
  const std::int64_t count = 100'000;
  const at::Tensor x = (factors(count, {0.2, 77, 0}) - 1) / 0.2;
  CHECK(x.abs().max().item<double>() < 1);
  // A uniform distribution on (−1, 1) has the mean 0 and the variance 1/3; five standard errors of either.
  CHECK(std::abs(x.mean().item<double>()) < 5 * std::sqrt(1.0 / 3 / count));
  CHECK(std::abs(x.square().mean().item<double>() - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / count));
  CHECK(at::equal(factors(8, {0, 77, 0}), at::ones({8}, at::kDouble)));
  CHECK_FALSE(at::equal(factors(8, {0.2, 77, 0}), factors(8, {0.2, 78, 0})));
}

TEST_CASE("an element's factor depends on its index alone") {
  const at::Tensor whole = factors(101, {0.3, 5, 0});
  for (const std::int64_t cut : {1, 2, 3, 4, 50, 99}) {
    const at::Tensor parts = at::cat({factors(cut, {0.3, 5, 0}), factors(101 - cut, {0.3, 5, cut})});
    CHECK(at::equal(parts, whole));
  }
  CHECK(largest_error(factors(101, {0.3, 5, 0}, at::kFloat), whole) <= fp32_rounding);
  const auto many = [] { return factors(70'000, {0.3, 5, 3}, at::kFloat); };
  CHECK(at::equal(with_threads(1, many), with_threads(2, many)));
}

}  // namespace
}  // namespace llmtrain::kernels
