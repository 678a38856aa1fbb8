// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "parallel/plan/planner/planned_run.h"
#include "parallel/plan/planner/planner.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

// One run, failure by failure.
double simulated_seconds(double useful, double interval, double checkpoint, double restart, double between_failures,
                         std::mt19937_64& random) {
  std::exponential_distribution<double> until_failure(1 / between_failures);
  double clock = 0;
  for (double done = 0; done < useful;) {
    double left = until_failure(random);
    if (left >= interval + checkpoint) {
      // Exponential failures have no memory: the next interval may draw again.
      clock += interval + checkpoint;
      done += interval;
      continue;
    }
    clock += left;
    while ((left = until_failure(random)) < restart) clock += left;
    clock += restart;
  }
  return clock;
}

TEST_CASE("the expected time of a run is the mean of many") {
  struct Case {
    double interval, checkpoint, restart, between_failures;
  };
  // Rare failures, frequent ones, and an interval that often fails.
  for (const Case& c : {Case{10, 1, 2, 500}, Case{10, 1, 20, 50}, Case{40, 5, 1, 30}}) {
    INFO(c.interval << " " << c.between_failures);
    std::mt19937_64 random(5);
    double sum = 0;
    for (int run = 0; run < 2000; ++run)
      sum += simulated_seconds(400, c.interval, c.checkpoint, c.restart, c.between_failures, random);
    // 2,000 runs of up to a hundred failures each: their mean is within 1 % of the expectation.
    CHECK(seconds_with_failures(400, c.interval, c.checkpoint, c.restart, c.between_failures) ==
          Approx(sum / 2000).epsilon(0.01));
  }
}

TEST_CASE("without failures only checkpoints take time, and the best interval loses least") {
  CHECK(seconds_with_failures(100, 10, 1, 5, 1e12) == Approx(110));
  const double best = best_checkpoint_interval(2, 1000), least = seconds_with_failures(1e4, best, 2, 5, 1000);
  CHECK(best == Approx(std::sqrt(2 * 2 * 1000.0) - 2).epsilon(0.02));
  for (const double factor : {0.5, 0.8, 1.25, 2.0})
    CHECK(seconds_with_failures(1e4, factor * best, 2, 5, 1000) > least);
}

TEST_CASE("the best interval loses least also where failures are nearly as frequent as checkpoints") {
  for (const double checkpoint : {1.0, 100.0, 500.0, 900.0, 1500.0, 1999.0}) {
    INFO(checkpoint);
    const auto seconds = [&](double interval) { return seconds_with_failures(1e4, interval, checkpoint, 5, 1000); };
    const double best = best_checkpoint_interval(checkpoint, 1000);
    double least = seconds(1000);
    for (double interval = 1000; interval > 1; interval *= 0.98) least = std::min(least, seconds(interval));
    CHECK(seconds(best) < 1.01 * least);
  }
}

TEST_CASE("a run's energy, failures and goodput follow from the profile's figures") {
  const Recipe recipe = paper("gpt3-175b", {"checkpoint.every=100", "checkpoint.async=false"});
  ClusterProfile cluster = profile_of(recipe);
  cluster.operation = {.watts_per_device = 500.0,
                       .device_hours_between_failures = 50000.0,
                       .restart_seconds = 600.0,
                       .checkpoint_bandwidth = 1e9};
  const Plan plan = make_plan(recipe, cluster);
  const PlannedRun& run = plan.report.run;
  CHECK(*run.energy_kilowatt_hours == Approx(run.device_hours / 2));
  CHECK(run.goodput->failures == Approx(run.device_hours / 50000));
  CHECK(run.goodput->every == 100);
  // 175 billion parameters, each with an fp16 weight, an fp32 master and two fp32 moments, through 128 nodes.
  CHECK(run.goodput->checkpoint_seconds == Approx(175e9 * 14 / 128e9).epsilon(0.01));
  const double between = 50000.0 * 3600 / 1024, step = plan.report.step.seconds;
  CHECK(*run.goodput->expected_seconds ==
        seconds_with_failures(run.seconds, 100 * step, run.goodput->checkpoint_seconds, 600, between));
  CHECK(run.goodput->fraction == Approx(run.seconds / *run.goodput->expected_seconds));
  CHECK(run.goodput->best_every ==
        std::llround(best_checkpoint_interval(run.goodput->checkpoint_seconds, between) / step));
}

TEST_CASE("a checkpoint in the background costs its copy, and what its write takes longer than the interval") {
  const auto seconds = [](const char* every) {
    const Recipe recipe = paper("gpt3-175b", {std::string("checkpoint.every=") + every});
    ClusterProfile cluster = profile_of(recipe);
    cluster.operation.checkpoint_bandwidth = 1e8;
    const Plan plan = make_plan(recipe, cluster);
    return std::pair(plan.report.run.goodput->checkpoint_seconds, plan.report.step.seconds);
  };
  const double copy = 175e9 * 14 / 1024 / 25e9, write = 175e9 * 14 / 128e8;
  CHECK(seconds("100").first == Approx(copy).epsilon(0.01));
  const auto [often, step] = seconds("1");
  CHECK(often == Approx(copy + write - step).epsilon(0.01));
}

TEST_CASE("the best interval counts a write in the background, and is never shorter than it") {
  const auto best_every = [](const char* async, double bandwidth) {
    const Recipe recipe = paper("gpt3-175b", {std::string("checkpoint.async=") + async});
    ClusterProfile cluster = profile_of(recipe);
    cluster.operation.device_hours_between_failures = 50000;
    cluster.operation.checkpoint_bandwidth = bandwidth;
    const Plan plan = make_plan(recipe, cluster);
    CHECK(plan.report.run.goodput->every == plan.report.run.goodput->best_every);
    return static_cast<double>(plan.report.run.goodput->best_every) * plan.report.step.seconds;
  };
  const double between = 50000.0 * 3600 / 1024;
  const auto write = [](double bandwidth) { return 175e9 * 14 / (128 * bandwidth); };
  // The copy to the host takes another tenth of a second.
  CHECK(best_every("true", 1e9) == Approx(best_checkpoint_interval(write(1e9), between)).epsilon(0.05));
  CHECK(best_every("true", 1e9) == Approx(best_every("false", 1e9)).epsilon(0.05));
  // Storage so slow that a write takes longer than the distance of failures, which the interval without it would be.
  REQUIRE(write(5e4) > 2 * between);
  CHECK(best_every("true", 5e4) >= write(5e4) * 0.99);
  CHECK(best_every("false", 5e4) < write(5e4) / 2);
}

PlanReport planned(const std::vector<std::string>& overrides) {
  const Recipe recipe = paper("gpt3-175b", overrides);
  return make_plan(recipe, profile_of(recipe)).report;
}

// A step of a recipe whose sequences all have the length is a step of the curriculum with that length.
TEST_CASE("a run of short sequences takes the time and tokens of its steps") {
  // Lengths 1024, 1536 and then 2048, of which the run's plan shows the step.
  const PlanReport run =
      planned({R"(data.curriculum.sequence_length={"start": 512, "steps": 3, "multiple": 512})", "training.steps=10"});
  const PlanReport whole = planned({});
  const double half = planned({"batch.sequence_length=1024"}).step.seconds;
  const double between = planned({"batch.sequence_length=1536"}).step.seconds;
  REQUIRE(whole.recipe.batch.sequence_length == 2048);
  CHECK(run.step.seconds == whole.step.seconds);
  CHECK(run.run.seconds == Approx(half + between + 8 * whole.step.seconds).epsilon(1e-12));
  CHECK(run.run.tokens == Approx(static_cast<double>(whole.recipe.batch.global) * (1024 + 1536 + 8 * 2048)));
}

TEST_CASE("a run whose layers drop tokens trains on all of them in less time") {
  const std::string all_rows = "parallel.sequence=false";
  const std::string kept =
      R"(training.token_dropping={"start": 512, "steps": 1000, "multiple": 16, "first_layers": 0, "last_layers": 0})";
  const PlanReport without = planned({all_rows, "training.steps=1"});
  const PlanReport first = planned({all_rows, kept, "training.steps=1"});
  const PlanReport all = planned({all_rows, kept, "training.steps=2000"});
  CHECK(first.run.tokens == without.run.tokens);
  CHECK(first.step.seconds == without.step.seconds);
  // A quarter of the tokens in all layers.
  CHECK(first.run.seconds < 0.4 * without.run.seconds);
  CHECK(first.run.seconds > 0.15 * without.run.seconds);
  // On the way about the mean of that and the whole.
  const double on_the_way = (first.run.seconds / without.run.seconds + 1) / 2;
  CHECK(all.run.seconds == Approx(without.run.seconds * 1000 * (1 + on_the_way)).epsilon(0.05));
  CHECK(fullest_rank(all).peak_bytes > fullest_rank(without).peak_bytes);
}

TEST_CASE("a run whose intervals no rank survives never ends, and without figures nothing is said") {
  const Recipe recipe = paper("gpt3-175b", {"checkpoint.every=1000"});
  ClusterProfile cluster = profile_of(recipe);
  cluster.operation.device_hours_between_failures = 1;
  const PlannedRun run = make_plan(recipe, cluster).report.run;
  CHECK(!run.goodput->expected_seconds);
  CHECK(run.goodput->fraction == 0);
  cluster.operation = {};
  const PlannedRun unknown = make_plan(recipe, cluster).report.run;
  CHECK(!unknown.goodput);
  CHECK(!unknown.energy_kilowatt_hours);
}

}  // namespace
}  // namespace llmtrain::test
