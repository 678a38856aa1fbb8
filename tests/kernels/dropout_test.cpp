// SPDX-License-Identifier: Apache-2.0
#include "kernels/random/dropout.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "kernels/random/philox.h"
#include "kernels/vector/dropout.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

at::Tensor dropped(at::Tensor x, const Dropout& dropout) {
  x = x.clone();
  dropout_(x, dropout);
  return x;
}

// The contract, element by element: 1 if the element is kept, 0 if it is dropped.
at::Tensor mask_of(std::int64_t n, const Dropout& dropout) {
  at::Tensor mask = at::ones({n}, at::kDouble);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto element = static_cast<std::uint64_t>(dropout.first_element + i);
    if (philox(dropout.key, element / 4, 0)[element % 4] < dropout.probability * 4294967296.0) mask[i] = 0;
  }
  return mask;
}

}  // namespace

TEST_CASE("dropout keeps the elements that the random words select and scales them") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble, at::kHalf);
  const double probability = GENERATE(0.1, 0.5, 0.9);
  const std::int64_t first_element = GENERATE(0LL, 1LL, 7LL, 0xFFFFFFFFLL * 4 + 2);
  const std::int64_t n = GENERATE(1, 5, 255, 600);
  const Dropout dropout{probability, 0x0123456789ABCDEF, first_element};
  const at::Tensor x = at::randn({n}).to(type);
  const at::Tensor expected = (x.to(at::kDouble) * mask_of(n, dropout) / (1 - probability)).to(type);
  const double error = (dropped(x, dropout) - expected).to(at::kDouble).abs().max().item<double>();
  const double unit = type == at::kBFloat16 ? 4e-3 : (type == at::kHalf ? 5e-4 : (type == at::kFloat ? 1e-7 : 1e-15));
  CHECK(error <= 2 * unit * expected.abs().max().to(at::kDouble).item<double>());
}

TEST_CASE("dropout of some heads of each sample is that of the unsharded tensor") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const std::int64_t samples = 3, heads = 4, elements = 25;  // not a multiple of a counter's four words
  const at::Tensor x = at::ones({samples, heads, elements}, type);
  const at::Tensor expected = dropped(x, {0.4, 77, 2 * heads * elements});
  for (const std::int64_t first : {0, 1, 2}) {
    const at::Tensor part = x.narrow(1, first, 2).contiguous();
    const Dropout dropout{0.4, 77, (2 * heads + first) * elements, 2 * elements, heads * elements};
    CHECK(at::equal(dropped(part, dropout), expected.narrow(1, first, 2)));
  }
  CHECK_THROWS_AS(dropped(x, {0.4, 77, 0, 7, 100}), Error);
  CHECK_THROWS_AS(dropped(x, {0.4, 77, 0, 50, 25}), Error);
}

TEST_CASE("dropout of a slice is the slice of the dropout") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const Dropout whole{0.3, 99, 5};
  const at::Tensor x = at::ones({1200}, type);
  const at::Tensor expected = dropped(x, whole);
  for (const std::int64_t begin : {0, 1, 2, 3, 4, 257, 1199}) {
    const Dropout part{whole.probability, whole.key, whole.first_element + begin};
    CHECK(at::equal(dropped(x.narrow(0, begin, 1200 - begin), part), expected.narrow(0, begin, 1200 - begin)));
  }
}

TEST_CASE("dropout keeps the expected fraction, independently of the neighbours") {
  const double probability = GENERATE(0.01, 0.1, 0.5, 0.75);
  const std::int64_t n = 1 << 20;
  const at::Tensor kept = dropped(at::ones({n}, at::kFloat), {probability, 3, 0}).ne(0).to(at::kDouble);
  const double variance = probability * (1 - probability);
  CHECK(std::abs(kept.mean().item<double>() - (1 - probability)) < 5 * std::sqrt(variance / n));
  for (const std::int64_t distance : {1, 2, 3, 4, 256}) {
    const at::Tensor a = kept.narrow(0, 0, n - distance) - (1 - probability);
    const at::Tensor b = kept.narrow(0, distance, n - distance) - (1 - probability);
    CHECK(std::abs((a * b).mean().item<double>()) < 5 * variance / std::sqrt(static_cast<double>(n)));
  }
}

TEST_CASE("every instruction-set level makes the same mask, at any alignment") {
  const std::int64_t offset = GENERATE(0, 1, 3);
  const std::int64_t n = GENERATE(1, 15, 256, 300);
  const std::uint64_t first_element = GENERATE(0, 2, 1021);
  const vector::DropoutMask mask{.key = 17, .threshold = 0x40000000, .scale = 4.0F / 3};
  const Dropout dropout{0.25, 17, static_cast<std::int64_t>(first_element)};
  const at::Tensor source = at::randn({offset + n});
  const at::Tensor expected = source.narrow(0, offset, n) * mask_of(n, dropout).to(at::kFloat) * mask.scale;
  at_every_level([&]<int level> {
    const auto kernels = vector::dropout_kernels_for<level>();
    const at::Tensor single = source.clone();
    kernels.fp32(single.data_ptr<float>() + offset, n, first_element, mask);
    CHECK(at::equal(single.narrow(0, offset, n), expected));
    const at::Tensor half = source.to(at::kBFloat16);
    const at::Tensor wide = half.narrow(0, offset, n).to(at::kFloat) * mask_of(n, dropout).to(at::kFloat) * mask.scale;
    kernels.bf16(static_cast<std::uint16_t*>(half.data_ptr()) + offset, n, first_element, mask);
    CHECK(at::equal(half.narrow(0, offset, n), wide.to(at::kBFloat16)));
  });
}

TEST_CASE("dropout does not depend on the number of threads") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor x = at::randn({50021}).to(type);
  const auto make = [&] { return dropped(x, {0.2, 4, 3}); };
  const at::Tensor one = with_threads(1, make);
  CHECK(at::equal(one, with_threads(2, make)));
  CHECK(at::equal(one, with_threads(3, make)));
}

TEST_CASE("a dropped element is zero, whatever its value was") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const at::Tensor x = at::full({100}, std::nan(""), at::TensorOptions(type));
  const Dropout dropout{0.5, 8, 0};
  CHECK(at::equal(dropped(x, dropout).isnan().to(at::kDouble), mask_of(100, dropout)));
}

TEST_CASE("dropout with probability 0 or of an empty tensor changes nothing") {
  const at::Tensor x = at::randn({10});
  CHECK(at::equal(dropped(x, {0, 1, 0}), x));
  CHECK(dropped(at::zeros({0}, at::kFloat), {0.5, 1, 0}).numel() == 0);
}

TEST_CASE("dropout refuses invalid arguments") {
  at::Tensor x = at::zeros({4, 4}, at::kFloat);
  CHECK_THROWS_WITH(dropout_(x, {1.0, 1, 0}), Catch::Contains("probability is 1"));
  CHECK_THROWS_AS(dropout_(x, {-0.1, 1, 0}), Error);
  CHECK_THROWS_AS(dropout_(x, {std::nan(""), 1, 0}), Error);
  CHECK_THROWS_AS(dropout_(x, {0.5, 1, -1}), Error);
  at::Tensor strided = x.narrow(1, 0, 2);
  CHECK_THROWS_AS(dropout_(strided, {0.5, 1, 0}), Error);
}

TEST_CASE("every seed, step and site has its own key") {
  std::set<std::uint64_t> keys;
  for (std::int64_t seed = 0; seed < 10; ++seed) {
    for (std::int64_t step = 0; step < 10; ++step) {
      for (std::uint64_t site = 0; site < 10; ++site) keys.insert(dropout_key(seed, step, site));
    }
  }
  CHECK(keys.size() == 1000);
  CHECK(dropout_key(0, 0, 0) == 0xe169c58d6627e8d5);  // the words of Random123's first known answer
}

}  // namespace llmtrain::kernels
