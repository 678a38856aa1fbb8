// SPDX-License-Identifier: Apache-2.0
#include "kernels/random/random.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "kernels/random/philox.h"
#include "kernels/vector/random.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

at::Tensor normal(std::int64_t n, std::uint64_t key, std::int64_t first_element = 0, double standard_deviation = 1,
                  at::ScalarType type = at::kFloat) {
  at::Tensor x = at::zeros({n}, type);
  fill_normal_(x, key, standard_deviation, first_element);
  return x;
}

// The upper 52 bits of two words, as a number in [0, 1).
double uniform(std::uint32_t low, std::uint32_t high) {
  return std::ldexp(static_cast<double>((static_cast<std::uint64_t>(high) << 32 | low) >> 12), -52);
}

// The Box-Muller formula with the C library's functions.
double box_muller(std::uint64_t key, std::int64_t element) {
  const auto words = philox(key, static_cast<std::uint64_t>(element / 2), 0);
  const double radius = std::sqrt(-2 * std::log(1 - uniform(words[0], words[1])));
  const double angle = 2 * std::numbers::pi * uniform(words[2], words[3]);
  return radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace

TEST_CASE("every element is the Box-Muller value of its own counter") {
  const std::uint64_t key = GENERATE(0, 0xDEADBEEF12345678);
  const std::int64_t first_element = GENERATE(0LL, 1LL, 6LL, 0x2FFFFFFFDLL);
  const at::Tensor x = normal(4000, key, first_element, 1, at::kDouble);
  double worst = 0;
  for (std::int64_t i = 0; i < 4000; ++i) {
    worst = std::max(worst, std::abs(x.data_ptr<double>()[i] - box_muller(key, first_element + i)));
  }
  CHECK(worst < 1e-14);
}

// The contract across machines: these bits must never change. Each agrees with the formula above.
TEST_CASE("the numbers are bitwise the same everywhere") {
  const double golden[6] = {-0x1.9ffd9aa3bc9b7p+0, -0x1.44b28888d8c8dp+0, 0x1.d85c966f9a5f2p-1,
                            0x1.c085bbe7cc11fp-3,  -0x1.e97e1a57636ccp-4, 0x1.bd00a70b7399p-1};
  at_every_level([&]<int level> {
    double x[6];
    vector::random_kernels_for<level>().fp64(x, 6, 0, {.key = 0, .standard_deviation = 1});
    for (int i = 0; i < 6; ++i) CHECK(x[i] == golden[i]);
  });
  for (int i = 0; i < 6; ++i) CHECK(golden[i] == Approx(box_muller(0, i)).epsilon(1e-14));
}

TEST_CASE("every instruction-set level makes the same bits, at any alignment") {
  const std::int64_t offset = GENERATE(0, 1, 3);
  const std::int64_t n = GENERATE(1, 127, 1000, 30000);
  const std::uint64_t first_element = GENERATE(0, 5);
  const at::Tensor expected = normal(n, 11, static_cast<std::int64_t>(first_element), 0.5);
  const at::Tensor wide = normal(n, 11, static_cast<std::int64_t>(first_element), 0.5, at::kDouble);
  at_every_level([&]<int level> {
    const auto kernels = vector::random_kernels_for<level>();
    const at::Tensor single = at::zeros({offset + n}, at::kFloat);
    kernels.fp32(single.data_ptr<float>() + offset, n, first_element, {.key = 11, .standard_deviation = 0.5});
    CHECK(at::equal(single.narrow(0, offset, n), expected));
    const at::Tensor twice = at::zeros({offset + n}, at::kDouble);
    kernels.fp64(twice.data_ptr<double>() + offset, n, first_element, {.key = 11, .standard_deviation = 0.5});
    CHECK(at::equal(twice.narrow(0, offset, n), wide));
  });
}

TEST_CASE("a slice is generated without the rest") {
  const auto type = GENERATE(at::kFloat, at::kDouble, at::kBFloat16);
  const at::Tensor whole = normal(1000, 5, 3, 0.02, type);
  for (const std::int64_t begin : {0, 1, 2, 127, 128, 129, 999}) {
    CHECK(at::equal(normal(1000 - begin, 5, 3 + begin, 0.02, type), whole.narrow(0, begin, 1000 - begin)));
  }
}

TEST_CASE("other types are rounded from fp32, and fp32 from float64") {
  CHECK(at::equal(normal(999, 5, 0, 0.02), normal(999, 5, 0, 0.02, at::kDouble).to(at::kFloat)));
  CHECK(at::equal(normal(999, 5, 0, 0.02, at::kBFloat16), normal(999, 5, 0, 0.02).to(at::kBFloat16)));
  CHECK(at::equal(normal(999, 5, 0, 0.02, at::kHalf), normal(999, 5, 0, 0.02).to(at::kHalf)));
}

TEST_CASE("a strided view is filled in the order of its elements") {
  at::Tensor x = at::zeros({7, 5}, at::kFloat).t();
  fill_normal_(x, 1, 1);
  CHECK(at::equal(x.reshape(-1), normal(35, 1)));
}

TEST_CASE("the numbers do not depend on the number of threads") {
  const auto make = [] { return normal(50021, 9, 1); };
  const at::Tensor one = with_threads(1, make);
  CHECK(at::equal(one, with_threads(2, make)));
  CHECK(at::equal(one, with_threads(3, make)));
}

TEST_CASE("different keys give uncorrelated numbers") {
  const std::int64_t n = 1 << 18;
  const at::Tensor a = normal(n, 1, 0, 1, at::kDouble);
  CHECK(std::abs((a * normal(n, 2, 0, 1, at::kDouble)).mean().item<double>()) < 5 / std::sqrt(n));
  CHECK(std::abs((a * normal(n, 1, n, 1, at::kDouble)).mean().item<double>()) < 5 / std::sqrt(n));
  CHECK(std::abs((a.narrow(0, 0, n - 1) * a.narrow(0, 1, n - 1)).mean().item<double>()) < 5 / std::sqrt(n));
}

// Bounds of five standard errors of each statistic of n normal numbers; the key is fixed, so they hold always or never.
TEST_CASE("the moments are those of the normal distribution") {
  const std::int64_t n = 1 << 20;
  const std::uint64_t key = GENERATE(0, 1, 77);
  const at::Tensor x = normal(n, key, 0, 3, at::kDouble) / 3;
  const auto bound = [&](double variance) { return 5 * std::sqrt(variance / static_cast<double>(n)); };
  CHECK(std::abs(x.mean().item<double>()) < bound(1));
  CHECK(std::abs(x.pow(2).mean().item<double>() - 1) < bound(2));
  CHECK(std::abs(x.pow(3).mean().item<double>()) < bound(15));
  CHECK(std::abs(x.pow(4).mean().item<double>() - 3) < bound(96));
}

// Kolmogorov-Smirnov: the largest distance D of the distribution functions; P(√n·D > 1.95) is 0.001.
TEST_CASE("the distribution is the normal one") {
  const std::int64_t n = 1 << 18;
  const std::uint64_t key = GENERATE(0, 1, 77);
  const at::Tensor sorted = std::get<0>(normal(n, key).to(at::kDouble).sort());
  const double* x = sorted.const_data_ptr<double>();
  double distance = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double probability = 0.5 * std::erfc(-x[i] / std::numbers::sqrt2);
    distance =
        std::max({distance, probability - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - probability});
  }
  CHECK(std::sqrt(static_cast<double>(n)) * distance < 1.95);
}

TEST_CASE("an empty tensor is allowed") { CHECK(normal(0, 1).numel() == 0); }

TEST_CASE("a block of a matrix has the same numbers as the matrix") {
  const std::int64_t rows = 40, columns = 37;
  const at::Tensor whole = normal(rows * columns, 5, 3).view({rows, columns});
  at::Tensor block = at::zeros({20, 9});
  fill_normal_block_(block, 5, 1, 3 + 11 * columns + 13, columns);
  CHECK(at::equal(block, whole.narrow(0, 11, 20).narrow(1, 13, 9)));
}

}  // namespace llmtrain::kernels
