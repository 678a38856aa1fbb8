// SPDX-License-Identifier: Apache-2.0
#include "core/optim/learning_rate.h"

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

// Those of the next three were computed by transformers 5.23, whose warm-up begins at 0 where this one ends: only what
// follows it is compared.
void check_equal_after(std::int64_t first, const LearningRateRecipe& rates, const std::vector<double>& expected) {
  for (std::size_t index = 0; index < expected.size(); ++index) {
    const double step = static_cast<double>(first) + static_cast<double>(index);
    INFO("step " << step);
    CHECK(learning_rate_at(rates, step) == Approx(expected[index]).epsilon(1e-12));
  }
}

TEST_CASE("the shapes of wsd's decay are get_wsd_schedule(num_warmup_steps=3, num_decay_steps=6, min_lr_ratio=0.1)") {
  LearningRateRecipe rates = recipe(Schedule::wsd, 3, 20, 1e-4);
  rates.decay_length = 6;
  check_equal_after(12, rates,
                    {0.001, 0.001, 0.001, 0.00085, 0.0007, 0.00055, 0.0004, 0.00024999999999999995, 0.0001, 0.0001});
  rates.decay_shape = DecayShape::cosine;
  check_equal_after(14, rates,
                    {0.001, 0.0009397114317029974, 0.000775, 0.00055, 0.000325, 0.00016028856829700258, 0.0001});
  rates.decay_shape = DecayShape::one_minus_sqrt;
  check_equal_after(14, rates,
                    {0.001, 0.0006325765385825232, 0.0004803847577293369, 0.00036360389693210714,
                     0.00026515307716504656, 0.00017841616374225078, 0.0001, 0.0001});
}

TEST_CASE("cosine_restarts is get_cosine_with_hard_restarts_schedule_with_warmup(2, 14, num_cycles=3)") {
  LearningRateRecipe rates = recipe(Schedule::cosine_restarts, 2, 14, 0);
  rates.cycles = 3;
  const std::vector<double> cycle{0.001, 0.0008535533905932737, 0.0005, 0.00014644660940672628};
  for (const std::int64_t first : {2, 6, 10}) check_equal_after(first, rates, cycle);
  CHECK(learning_rate_at(rates, 14) == 0);
}

TEST_CASE("inverse_sqrt is get_inverse_sqrt_schedule") {
  check_equal_after(
      4, recipe(Schedule::inverse_sqrt, 4, 6, 0),
      {0.001, 0.0008944271909999159, 0.0008164965809277262, 0.0007559289460184544, 0.0007071067811865475});
  check_equal_after(0, recipe(Schedule::inverse_sqrt, 0, 6, 0), {0.001, 0.0009999500037496877, 0.0009999000149975006});
  // transformers knows no minimum: it is what the curve falls to.
  CHECK(learning_rate_at(recipe(Schedule::inverse_sqrt, 4, 6, 4e-4), 16) == Approx(4e-4 + 6e-4 / 2));
}

TEST_CASE("one cosine without restarts is cosine, and a fifth is wsd's own decay") {
  LearningRateRecipe explicit_length = recipe(Schedule::wsd, 3, 50, 1e-5);
  explicit_length.decay_length = 10;
  for (std::int64_t step = 0; step < 55; ++step) {
    const auto at = static_cast<double>(step);
    CHECK(learning_rate_at(recipe(Schedule::cosine_restarts, 3, 50, 1e-5), at) ==
          learning_rate_at(recipe(Schedule::cosine, 3, 50, 1e-5), at));
    CHECK(learning_rate_at(explicit_length, at) == learning_rate_at(recipe(Schedule::wsd, 3, 50, 1e-5), at));
  }
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
  for (const Schedule schedule :
       {Schedule::cosine, Schedule::linear, Schedule::constant, Schedule::wsd, Schedule::inverse_sqrt}) {
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
