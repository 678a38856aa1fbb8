// SPDX-License-Identifier: Apache-2.0
#include "core/optim/optimizer.h"

#include <catch2/catch.hpp>
#include <vector>

namespace llmtrain {
namespace {

using Schedule = LearningRateSchedule;

LearningRateRecipe recipe(Schedule schedule, std::int64_t warmup_steps, std::int64_t decay_steps, double minimum) {
  return {
      .schedule = schedule, .peak = 1e-3, .minimum = minimum, .warmup_steps = warmup_steps, .decay_steps = decay_steps};
}

void check_equal(const LearningRateRecipe& rates, const std::vector<double>& expected) {
  for (std::size_t step = 0; step < expected.size(); ++step) {
    INFO("step " << step);
    CHECK(learning_rate_at(rates, static_cast<double>(step)) == Approx(expected[step]).epsilon(1e-12));
  }
}

TEST_CASE("warm-up is linear and ends at the peak, for every schedule") {
  for (const Schedule schedule : {Schedule::cosine, Schedule::linear, Schedule::constant, Schedule::wsd}) {
    const LearningRateRecipe rates = recipe(schedule, 4, 100, 1e-4);
    CHECK(learning_rate_at(rates, 0) == 0.25e-3);
    CHECK(learning_rate_at(rates, 1) == 0.5e-3);
    CHECK(learning_rate_at(rates, 2) == 0.75e-3);
    CHECK(learning_rate_at(rates, 3) == 1e-3);
    CHECK(learning_rate_at(rates, 4) == 1e-3);
  }
}

TEST_CASE("without warm-up the first step is at the peak") {
  for (const Schedule schedule : {Schedule::cosine, Schedule::linear, Schedule::constant, Schedule::wsd})
    CHECK(learning_rate_at(recipe(schedule, 0, 10, 0), 0) == 1e-3);
}

TEST_CASE("all but constant end at the minimum and stay there") {
  for (const Schedule schedule : {Schedule::cosine, Schedule::linear, Schedule::wsd}) {
    const LearningRateRecipe rates = recipe(schedule, 3, 50, 1e-5);
    CHECK(learning_rate_at(rates, 49) > 1e-5);
    CHECK(learning_rate_at(rates, 50) == 1e-5);
    CHECK(learning_rate_at(rates, 51) == 1e-5);
    CHECK(learning_rate_at(rates, 1'000'000'000'000) == 1e-5);
  }
  const LearningRateRecipe constant = recipe(Schedule::constant, 3, 50, 1e-5);
  CHECK(learning_rate_at(constant, 49) == 1e-3);
  CHECK(learning_rate_at(constant, 50) == 1e-3);
  CHECK(learning_rate_at(constant, 1'000'000'000'000) == 1e-3);
}

// The expected numbers of the next four cases were computed by torch.optim.lr_scheduler of PyTorch 2.11.
TEST_CASE("cosine is CosineAnnealingLR(T_max=8, eta_min=1e-4)") {
  check_equal(recipe(Schedule::cosine, 0, 8, 1e-4),
              {0.001, 0.00096574578963007905, 0.00086819805153394642, 0.00072220754456429057, 0.00055,
               0.00037779245543570966, 0.00023180194846605365, 0.00013425421036992097, 0.0001});
}

TEST_CASE("linear is LinearLR(1, 0.1, total_iters=8)") {
  check_equal(recipe(Schedule::linear, 0, 8, 1e-4),
              {0.001, 0.0008875, 0.000775, 0.0006625, 0.00055, 0.0004375, 0.000325, 0.0002125, 0.0001, 0.0001});
}

TEST_CASE("cosine after warm-up is SequentialLR of LinearLR(1/4, total_iters=3) and CosineAnnealingLR(T_max=6)") {
  check_equal(recipe(Schedule::cosine, 4, 10, 1e-4), {0.00025, 0.0005, 0.00075, 0.001, 0.001, 0.00093971143170299754,
                                                      0.000775, 0.00055, 0.000325, 0.0001602885682970026, 0.0001});
}

TEST_CASE("wsd is SequentialLR of LinearLR(1/3), ConstantLR and LinearLR(1, 0.05, total_iters=4) from step 16 of 20") {
  std::vector<double> expected{0.001 / 3, 0.002 / 3};
  expected.insert(expected.end(), 15, 0.001);
  for (const double rate : {0.0007625, 0.000525, 0.0002875, 0.00005, 0.00005}) expected.push_back(rate);
  check_equal(recipe(Schedule::wsd, 3, 20, 5e-5), expected);
}

TEST_CASE("wsd decays over the last fifth, rounded down") {
  const LearningRateRecipe rates = recipe(Schedule::wsd, 0, 14, 0);  // ⌊14/5⌋ = 2
  CHECK(learning_rate_at(rates, 12) == 1e-3);
  CHECK(learning_rate_at(rates, 13) == Approx(0.5e-3));
  CHECK(learning_rate_at(rates, 14) == 0);
  const LearningRateRecipe shorter_than_five = recipe(Schedule::wsd, 0, 4, 0);
  CHECK(learning_rate_at(shorter_than_five, 3) == 1e-3);
  CHECK(learning_rate_at(shorter_than_five, 4) == 0);
}

TEST_CASE("a warm-up that reaches into the decay of wsd shortens the decay") {
  const LearningRateRecipe rates = recipe(Schedule::wsd, 18, 20, 0);
  CHECK(learning_rate_at(rates, 17) == 1e-3);
  CHECK(learning_rate_at(rates, 18) == 1e-3);
  CHECK(learning_rate_at(rates, 19) == Approx(0.5e-3));
}

TEST_CASE("a warm-up as long as the decay or longer leaves only the minimum") {
  for (const Schedule schedule : {Schedule::cosine, Schedule::linear, Schedule::wsd}) {
    CHECK(learning_rate_at(recipe(schedule, 5, 5, 1e-4), 4) == 1e-3);
    CHECK(learning_rate_at(recipe(schedule, 5, 5, 1e-4), 5) == 1e-4);
    CHECK(learning_rate_at(recipe(schedule, 8, 5, 1e-4), 6) == Approx(1e-3 * 7 / 8));
    CHECK(learning_rate_at(recipe(schedule, 8, 5, 1e-4), 8) == 1e-4);
  }
}

TEST_CASE("after the warm-up no schedule rises, and none leaves the range from minimum to peak") {
  for (const Schedule schedule : {Schedule::cosine, Schedule::linear, Schedule::constant, Schedule::wsd}) {
    const LearningRateRecipe rates = recipe(schedule, 7, 301, 3e-5);
    double before = 1e-3;
    for (std::int64_t step = 6; step < 400; ++step) {
      const double rate = learning_rate_at(rates, static_cast<double>(step));
      REQUIRE(rate <= before);
      REQUIRE(rate >= 3e-5);
      before = rate;
    }
  }
}

}  // namespace
}  // namespace llmtrain
