// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/sample_order.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

namespace llmtrain {
namespace {

using Weights = std::vector<double>;

struct Step {
  std::size_t source;
  std::int64_t take;
};

// The definition in integers: the largest weight·(k + 1) − taken·sum, ties to the lowest index.
std::vector<Step> by_definition(const std::vector<std::int64_t>& weights, std::int64_t positions) {
  const std::int64_t sum = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  std::vector<std::int64_t> taken(weights.size(), 0);
  std::vector<Step> steps;
  for (std::int64_t k = 0; k < positions; ++k) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < weights.size(); ++i) {
      if (weights[i] * (k + 1) - taken[i] * sum > weights[best] * (k + 1) - taken[best] * sum) best = i;
    }
    steps.push_back({best, taken[best]++});
  }
  return steps;
}

void check_definition(const Weights& given, const std::vector<std::int64_t>& integers) {
  const Blend blend(given);
  const auto expected = by_definition(integers, 1000);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    const auto choice = blend.at(static_cast<std::int64_t>(k));
    if (choice.source != expected[k].source || choice.take != expected[k].take) FAIL("position " << k);
  }
  SUCCEED();
}

}  // namespace

TEST_CASE("A blend of one source is that source") {
  const Blend blend(Weights{0.3});
  for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 60}) {
    CHECK(blend.at(k).source == 0);
    CHECK(blend.at(k).take == k);
  }
}

TEST_CASE("A blend follows its definition over several periods") {
  check_definition({1, 1}, {1, 1});
  check_definition({0.7, 0.3}, {7, 3});
  check_definition({0.5, 0.25, 0.25}, {2, 1, 1});
  check_definition({3, 1, 4, 1, 5, 9}, {3, 1, 4, 1, 5, 9});
  check_definition({0.7, 0.2, 0.1}, {7, 2, 1});
  check_definition({1.0 / 3, 2.0 / 3}, {1, 2});
  check_definition({97, 101, 103}, {97, 101, 103});
}

TEST_CASE("Ties in a blend go to the lowest index") {
  const Blend blend(Weights{1, 1, 1});
  for (std::int64_t k = 0; k < 9; ++k) CHECK(blend.at(k).source == static_cast<std::size_t>(k % 3));
}

TEST_CASE("A blend scales its weights to sum 1") {
  const Blend small(Weights{2e-300, 1e-300});
  const Blend huge(Weights{1.6e308, 0.8e308});
  for (std::int64_t k = 0; k < 12; ++k) {
    CHECK(small.at(k).source == huge.at(k).source);
    CHECK(small.at(k).source == (k % 3 == 1 ? 1U : 0U));
  }
}

TEST_CASE("A blend numbers the samples of each source without gaps") {
  const Blend blend(Weights{0.6180339887, 0.2718281828, 0.1101378285});
  std::vector<std::int64_t> next(3, 0);
  const std::int64_t positions = 2 * blend.period() + 100;
  for (std::int64_t k = 0; k < positions; ++k) {
    const auto choice = blend.at(k);
    if (choice.take != next[choice.source]++) FAIL("position " << k);
  }
  CHECK(next[0] + next[1] + next[2] == positions);
}

TEST_CASE("A blend never lets a source get ahead by a whole sample, and two never fall behind by one") {
  const Weights weights{std::sqrt(2) - 1, 2 - std::sqrt(2)};
  const Blend blend(weights);
  std::vector<double> taken(2, 0);
  for (std::int64_t k = 0; k < 100000; ++k) {
    ++taken[blend.at(k).source];
    for (std::size_t i = 0; i < 2; ++i) {
      const double deficit = weights[i] * static_cast<double>(k + 1) - taken[i];
      if (std::abs(deficit) > 1.1) FAIL("position " << k);  // the shares round the weights by 1e-6 per position
    }
  }
  SUCCEED();
}

TEST_CASE("A blend keeps its proportions to one in a million at distant positions") {
  const Weights weights{0.123456789, 0.876543211};
  const Blend blend(weights);
  const std::int64_t position = 1'000'000'000'000;
  std::int64_t k = position;
  while (blend.at(k).source != 0) ++k;
  CHECK(static_cast<double>(blend.at(k).take) / static_cast<double>(k) == Approx(weights[0]).margin(1e-6));
}

TEST_CASE("A blend omits no source, however small its weight") {
  const Blend blend(Weights{1, 1e-12});
  std::int64_t takes = 0;
  for (std::int64_t k = 0; k < blend.period(); ++k) takes += blend.at(k).source == 1;
  CHECK(takes == 1);
}

}  // namespace llmtrain
