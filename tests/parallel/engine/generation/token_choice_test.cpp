// SPDX-License-Identifier: Apache-2.0
// Tokens are chosen with the probabilities that temperature, top-k and top-p leave.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "parallel/engine/generation/token_choice.h"

namespace llmtrain::test {
namespace {

// Probabilities 0.1, 0.4, 0.2, 0.3 at temperature 1.
const std::array<float, 4> logits{std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};

constexpr std::int64_t draws = 20000;

std::vector<double> shares(const TokenChoice& choice) {
  std::vector<double> counts(logits.size(), 0);
  for (std::int64_t index = 0; index < draws; ++index)
    counts.at(static_cast<std::size_t>(choose_token(logits, choice, {}, index))) += 1.0 / draws;
  return counts;
}

// Five standard deviations of a share, so that one seed in a million fails.
void check_shares(const TokenChoice& choice, const std::vector<double>& expected) {
  const std::vector<double> found = shares(choice);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double deviation = std::sqrt(expected[i] * (1 - expected[i]) / draws);
    CHECK(std::abs(found[i] - expected[i]) <= 5 * deviation + 1e-9);  // with room for the sum of shares
  }
}

}  // namespace

TEST_CASE("temperature, top-k and top-p give the probabilities of their definitions") {
  check_shares({.temperature = 1}, {0.1, 0.4, 0.2, 0.3});
  check_shares({.temperature = 0}, {0, 1, 0, 0});
  // Squares of the probabilities, divided by their sum.
  check_shares({.temperature = 0.5}, {0.01 / 0.3, 0.16 / 0.3, 0.04 / 0.3, 0.09 / 0.3});
  check_shares({.temperature = 1, .top_k = 2}, {0, 4.0 / 7, 0, 3.0 / 7});
  check_shares({.temperature = 1, .top_k = 9}, {0.1, 0.4, 0.2, 0.3});
  // 0.4 alone is not enough, with 0.3 it is.
  check_shares({.temperature = 1, .top_p = 0.6}, {0, 4.0 / 7, 0, 3.0 / 7});
  check_shares({.temperature = 1, .top_p = 0.75}, {0, 4.0 / 9, 2.0 / 9, 3.0 / 9});
  check_shares({.temperature = 1, .top_p = 0}, {0, 1, 0, 0});
  // The three most likely then have the probabilities 4/9, 3/9 and 2/9: two of them are enough for 7/9.
  check_shares({.temperature = 1, .top_k = 3, .top_p = 0.77}, {0, 4.0 / 7, 0, 3.0 / 7});
}

TEST_CASE("of equally likely tokens the first is the most likely, and infinite logits do not matter") {
  const std::array<float, 4> equal{0, 2, 2, -std::numeric_limits<float>::infinity()};
  for (std::int64_t index = 0; index < 50; ++index) {
    CHECK(choose_token(equal, {.temperature = 0}, {}, index) == 1);
    CHECK(choose_token(equal, {.temperature = 1, .top_k = 1}, {}, index) == 1);
    CHECK(choose_token(equal, {.temperature = 5}, {}, index) != 3);
  }
}

TEST_CASE("a draw depends on seed, text and index, and on each of them") {
  std::vector<float> flat(1 << 20, 0.0F);
  const auto draw = [&](std::int64_t seed, const TextNumber& text, std::int64_t index) {
    return choose_token(flat, {.temperature = 1, .seed = seed}, text, index);
  };
  const std::int64_t first = draw(1, {2, 3}, 4);
  CHECK(draw(1, {2, 3}, 4) == first);
  CHECK(draw(2, {2, 3}, 4) != first);
  CHECK(draw(1, {3, 3}, 4) != first);
  CHECK(draw(1, {2, 4}, 4) != first);
  CHECK(draw(1, {3, 2}, 4) != first);
  CHECK(draw(1, {2, 3}, 5) != first);
}

}  // namespace llmtrain::test
