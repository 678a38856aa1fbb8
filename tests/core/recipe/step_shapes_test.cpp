// SPDX-License-Identifier: Apache-2.0
// Lengths against values of DeepSpeed's scheduler, and shapes of steps against the sums that they stand for.
#include "core/recipe/step_shapes.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/easiest_share.h"
#include "core/recipe/rules/rules.h"
#include "core/recipe/schedules/length_schedule.h"
#include "tests/core/recipe/good_recipe.h"

namespace llmtrain::test {
namespace {

using Values = std::vector<std::pair<std::int64_t, std::int64_t>>;

void check_values(const LengthSchedule& schedule, const Values& expected) {
  for (const auto& [t, length] : expected) {
    INFO("t = " << t);
    CHECK(schedule.at(t) == length);
  }
}

Recipe cutting(const std::string& curriculum, std::int64_t steps = 100) {
  Json json = small_recipe();
  json["data"]["curriculum"]["sequence_length"] = Json::parse(curriculum);
  json["training"]["steps"] = steps;
  return parse(json);
}

}  // namespace

TEST_CASE("lengths grow as DeepSpeed's fixed_linear and fixed_root do", "[curriculum]") {
  check_values(LengthSchedule({.start = 80, .steps = 110000, .multiple = 8}, 2048),
               {{1, 80}, {447, 80}, {448, 88}, {55000, 1064}, {109999, 2040}, {110000, 2048}, {1 << 30, 2048}});
  check_values(LengthSchedule({.start = 1, .steps = 110000, .multiple = 1, .degree = 2}, 100),
               {{12, 2}, {27500, 50}, {55000, 71}, {109999, 99}, {110000, 100}});
  check_values(LengthSchedule({.start = 128, .steps = 200000, .multiple = 16}, 2048),
               {{0, 128}, {1667, 144}, {100000, 1088}, {133333, 1392}, {199999, 2032}, {200000, 2048}});
}

TEST_CASE("a length that no multiple reaches is reached all the same, and one of full length from the start is kept",
          "[curriculum]") {
  check_values(LengthSchedule({.start = 8, .steps = 10, .multiple = 8}, 30), {{0, 8}, {9, 24}, {10, 30}, {11, 30}});
  check_values(LengthSchedule({.start = 24, .steps = 10, .multiple = 8}, 24), {{0, 24}, {5, 24}, {10, 24}});
}

TEST_CASE("changes of the length are found where they are", "[curriculum]") {
  for (const double degree : {1.0, 2.0, 3.5}) {
    const LengthSchedule schedule({.start = 16, .steps = 333, .multiple = 4, .degree = degree}, 250);
    std::int64_t expected = 1;
    while (expected < 340 && schedule.at(expected) == schedule.at(0)) ++expected;
    CHECK(schedule.next_change(0) == expected);
    for (std::int64_t t = 0; t < 333; ++t) {
      const auto next = schedule.next_change(t);
      REQUIRE(next);
      CHECK(*next > t);
      CHECK(schedule.at(*next) > schedule.at(t));
      CHECK(schedule.at(*next - 1) == schedule.at(t));
    }
    CHECK_FALSE(schedule.next_change(333));
  }
}

TEST_CASE("without a curriculum all steps have the batch's shape", "[curriculum]") {
  const StepShapes shapes(parse(small_recipe()));
  CHECK(shapes.runs().size() == 1);
  CHECK(shapes.at(0) == StepShape{2, 128, 0, 8});
  CHECK(shapes.at(1'000'000) == StepShape{2, 128, 0, 8});
  CHECK(shapes.whole_steps_before(17) == 17);
}

TEST_CASE("a step's micro-batches are shorter, or have more sequences of as many tokens", "[curriculum]") {
  const std::string lengths = R"({"start": 16, "steps": 50, "method": )";
  const Recipe truncating = cutting(lengths + R"("truncate"})"), reshaping = cutting(lengths + R"("reshape"})");
  const StepShapes shorter(truncating), more(reshaping);
  const LengthSchedule schedule({.start = 16, .steps = 50}, 128);
  double truncated = 0, reshaped = 0;
  for (std::int64_t step = 0; step < 100; ++step) {
    INFO("step " << step);
    CHECK(shorter.whole_steps_before(step) == Approx(truncated / (8 * 128)));
    CHECK(more.whole_steps_before(step) == Approx(reshaped / (8 * 128)));
    const std::int64_t length = schedule.at(step + 1);
    CHECK(shorter.at(step) == StepShape{2, length, 0, 8});
    CHECK(more.at(step) == StepShape{2 * 128 / length, length, 0, 8});
    CHECK(tokens_of_step(truncating, shorter.at(step)) == 8 * length);
    truncated += static_cast<double>(8 * length);
    reshaped += static_cast<double>(tokens_of_step(reshaping, more.at(step)));
  }
  CHECK(more.at(0) == StepShape{16, 16, 0, 8});
  CHECK(more.at(49) == StepShape{2, 128, 0, 8});
}

// DeepSpeed's recipe of GPT-3 with 1.3 billion parameters: 24 layers, 512 sequences of 2048 tokens per step. So many
// steps have 300 billion tokens with kept tokens from t = 1 on; from t = 0 on, as they are used, it is one more.
TEST_CASE("runs need as many more steps for their tokens as DeepSpeed's", "[curriculum]") {
  const Json lengths = {{"start", 80}, {"steps", 110000}};
  const Json dropping = {{"start", 128}, {"steps", 200000}};
  const auto check_steps = [](const Json& curriculum, const Json& kept, std::int64_t steps) {
    Json json = small_recipe();
    json["model"]["max_sequence_length"] = 2048;
    json["model"]["layers"] = 24;
    json["batch"] = {{"global", 512}, {"micro", 1}};
    json["data"]["curriculum"]["sequence_length"] = curriculum;
    json["training"] = {{"steps", 400000}, {"token_dropping", kept}};
    const StepShapes shapes(parse(json));
    const double budget = 300e9 / (512.0 * 2048);
    CHECK(shapes.whole_steps_before(steps - 1) < budget);
    CHECK(shapes.whole_steps_before(steps) >= budget);
  };
  check_steps(nullptr, nullptr, 286103);
  check_steps(lengths, nullptr, 339169);
  check_steps(nullptr, dropping, 372788 + 1);
  check_steps(lengths, dropping, 377263 + 1);
}

TEST_CASE("the learning rate's clock is steps or tokens", "[curriculum]") {
  const Recipe recipe = cutting(R"({"start": 64, "steps": 10, "multiple": 64})");
  const StepShapes shapes(recipe);
  LearningRateRecipe rate;
  CHECK(schedule_position(rate, shapes, 15) == 15);
  rate.clock = ScheduleClock::tokens;
  // Nine steps of half the length, then whole ones.
  CHECK(schedule_position(rate, shapes, 9) == 4.5);
  CHECK(schedule_position(rate, shapes, 15) == 10.5);
}

// DeepSpeed's recipe of GPT-3: from 1 % on, the square root of 110,000 steps.
TEST_CASE("the share of the easiest samples grows as DeepSpeed's fixed_root does", "[curriculum]") {
  CurriculumRecipe curriculum;
  CHECK(easiest_percent(curriculum, 0) == 100);
  curriculum.vocabulary_rarity = VocabularyRarityCurriculum{.steps = 110'000};
  const std::vector<std::pair<std::int64_t, std::int64_t>> published{{1, 1},       {12, 2},       {27'500, 50},
                                                                     {55'000, 71}, {109'999, 99}, {110'000, 100}};
  for (const auto& [t, percent] : published) CHECK(easiest_percent(curriculum, t - 1) == percent);
  curriculum.vocabulary_rarity = VocabularyRarityCurriculum{.start = 30, .steps = 7, .degree = 1};
  CHECK(easiest_percent(curriculum, 0) == 40);
  CHECK(easiest_percent(curriculum, 5) == 90);
  CHECK(easiest_percent(curriculum, 6) == 100);
}

TEST_CASE("a run that ends before its schedules is warned of", "[curriculum]") {
  const std::string schedule = R"({"start": 64, "steps": 200, "multiple": 16})";
  using Words = std::vector<std::string>;
  CHECK(recipe_warnings(cutting(schedule)) ==
        Words{"data.curriculum.sequence_length.steps: the run (training.steps 100) ends before it, at 96 of "
              "batch.sequence_length 128 tokens"});
  CHECK(recipe_warnings(cutting(schedule, 200)).empty());
  Json rare = small_recipe();
  rare["data"]["curriculum"]["vocabulary_rarity"] = {{"steps", 200}};
  CHECK(recipe_warnings(parse(rare)) ==
        Words{"data.curriculum.vocabulary_rarity.steps: the run (training.steps 100) ends before it, at 71 % of the "
              "samples"});
  Json json = small_recipe();
  json["training"]["token_dropping"] = Json::parse(R"({"start": 64, "steps": 10, "multiple": 64})");
  json["training"]["learning_rate"]["clock"] = "tokens";
  // In ten steps two of the four layers see half of the tokens.
  CHECK(recipe_warnings(parse(json)) ==
        Words{"training.learning_rate.decay_steps: the tokens of the run are those of 98 whole steps, so that the "
              "learning rate does not reach its minimum at 100"});
}

}  // namespace llmtrain::test
