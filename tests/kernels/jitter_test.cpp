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

// Two sequences of eight tokens, of which two ranks have an early and a late pair each, from the third row on.
TEST_CASE("rows of a part of each sequence have the factors of the whole sequences") {
  const std::int64_t width = 5;
  const Jitter jitter{0.3, 9, 7};
  const at::Tensor whole = factors(2 * 8 * width, jitter).view({2, 8, width});
  for (const std::vector<PositionRun>& runs :
       {std::vector<PositionRun>{{0, 2}, {6, 2}}, std::vector<PositionRun>{{2, 2}, {4, 2}}}) {
    const SequencePart part{8, runs};
    const at::Tensor held =
        at::cat({whole.narrow(1, runs[0].begin, 2), whole.narrow(1, runs[1].begin, 2)}, 1).reshape({8, width});
    at::Tensor own = at::ones({5, width}, at::kDouble);
    jitter_rows_(own, jitter, {part, 4, 2});
    CHECK(at::equal(own, held.narrow(0, 2, 5)));
  }
}

}  // namespace
}  // namespace llmtrain::kernels
