// SPDX-License-Identifier: Apache-2.0
#include "core/optim/spike_detector.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace llmtrain::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// A window of losses 1 and 3 in turns, of mean 2 and deviation 1, and of gradient norms that are ten times as large.
SpikeDetector full_detector(const SpikeRecipe& recipe) {
  SpikeDetector detector(recipe);
  for (int i = 0; i < 4; ++i) {
    CHECK_FALSE(detector.update(1, 10));
    CHECK_FALSE(detector.update(3, 30));
  }
  return detector;
}

}  // namespace

TEST_CASE("a spike is more than so many standard deviations above the mean of the window") {
  const SpikeRecipe recipe{.loss = 4, .gradient_norm = 6, .window = 8};
  CHECK_FALSE(full_detector(recipe).update(6, 80));
  CHECK_FALSE(full_detector(recipe).update(-100, 0));

  const auto of_loss = full_detector(recipe).update(6.001, 20);
  REQUIRE(of_loss);
  CHECK((of_loss->quantity == "loss" && of_loss->value == 6.001 && of_loss->mean == 2));
  CHECK(of_loss->deviations() == Approx(4.001));
  const auto of_norm = full_detector(recipe).update(2, 80.1);
  REQUIRE(of_norm);
  CHECK((of_norm->quantity == "gradient norm" && of_norm->deviations() == Approx(6.01)));
  CHECK(full_detector(recipe).update(std::nan(""), 20));
}

TEST_CASE("nothing is a spike before the window is full, but a loss that is not finite") {
  SpikeDetector detector({.loss = 4, .gradient_norm = 4, .window = 8});
  for (int i = 0; i < 7; ++i) CHECK_FALSE(detector.update(1 + i % 2, 1));
  CHECK(detector.update(infinity, 1));
  CHECK_FALSE(detector.update(1000, 1000));
  CHECK(detector.recent().losses == std::vector<double>{1, 2, 1, 2, 1, 2, 1, 1000});
}

TEST_CASE("spikes do not enter the window, and what does displaces the oldest update") {
  SpikeDetector detector = full_detector({.loss = 4, .gradient_norm = 0, .window = 8});
  const std::vector<double> before = detector.recent().losses;
  for (int i = 0; i < 20; ++i) CHECK(detector.update(7, 20));
  CHECK(detector.recent().losses == before);
  CHECK_FALSE(detector.update(5, 1e9));
  CHECK(detector.recent().losses == std::vector<double>{3, 1, 3, 1, 3, 1, 3, 5});
  CHECK(detector.recent().gradient_norms == std::vector<double>{30, 10, 30, 10, 30, 10, 30, 1e9});
}

TEST_CASE("rounding alone makes no spike") {
  SpikeDetector detector({.loss = 3, .gradient_norm = 0, .window = 8});
  for (int i = 0; i < 8; ++i) CHECK_FALSE(detector.update(2, 1));
  // A thousandth of the mean counts as one deviation at least.
  CHECK_FALSE(detector.update(2.0059, 1));
  CHECK(detector.update(2.02, 1));
}

TEST_CASE("without limits nothing is watched or remembered") {
  SpikeDetector detector({.loss = 0, .gradient_norm = 0, .window = 8});
  for (int i = 0; i < 20; ++i) CHECK_FALSE(detector.update(i == 19 ? infinity : 1, 1));
  detector.set_recent({{1}, {1}});
  CHECK((detector.recent().losses.empty() && detector.recent().gradient_norms.empty()));
}

TEST_CASE("a detector goes on from a state, of which a shorter window keeps the newest") {
  SpikeDetector detector({.loss = 4, .gradient_norm = 4, .window = 8});
  const SpikeDetector wide = full_detector({.loss = 4, .gradient_norm = 4, .window = 8});
  detector.set_recent(wide.recent());
  CHECK(detector.update(7, 20));
  RecentUpdates longer;
  for (std::size_t i = 0; i < 12; ++i) longer.losses.push_back(static_cast<double>(i));
  longer.gradient_norms = longer.losses;
  detector.set_recent(longer);
  CHECK(detector.recent().losses == std::vector<double>{4, 5, 6, 7, 8, 9, 10, 11});
}

}  // namespace llmtrain::test
