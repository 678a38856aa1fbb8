// SPDX-License-Identifier: Apache-2.0
// What plans say of layers that may leave FP8.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "parallel/plan/memory/memory_model.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/report/report.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

const std::string fallback = "precision.high_precision.fallback_steps=4";
const std::string delayed = "precision.fp8_scaling.method=\"delayed\"";

bool warns(const PlanReport& report) {
  return std::ranges::any_of(report.warnings, [](const std::string& warning) {
    return warning.find("precision.high_precision.fallback_steps: a rank may need up to ") == 0;
  });
}

// The plan on devices of this much memory.
PlanReport on_devices_of(const Recipe& recipe, double bytes) {
  ClusterProfile cluster = profile_of(recipe);
  cluster.device.memory_bytes = bytes;
  return make_plan(recipe, cluster).report;
}

}  // namespace

TEST_CASE("a plan with layers that may leave FP8 has a bound, and warns where that does not fit") {
  const Recipe recipe = small_gpt({"precision.fp8_level=O2", delayed, fallback});
  const PlanReport report = make_plan(recipe, profile_of(recipe)).report;
  REQUIRE(fallback_peak(report));
  const double peak = peak_bytes(report), most = *fallback_peak(report);
  CHECK(most > peak);
  CHECK(to_json(report)["ranks"][0]["fallback_peak_bytes"].get<double>() == Approx(most));
  const PlanReport between = on_devices_of(recipe, (peak + most) / 2);
  CHECK((between.fits && warns(between)));
  CHECK_FALSE(warns(on_devices_of(recipe, most)));
  // That is said already.
  CHECK_FALSE(warns(on_devices_of(recipe, 0.9 * peak)));
}

TEST_CASE("gradients that leave FP8 are held beside the others, whole and as they were summed") {
  // In other programs throughout the step.
  ClusterProfile cluster = profile("v100-32gb");
  cluster.program.name = "other";
  const PlanReport report = make_plan(small_gpt({"precision.fp8_level=O1", fallback}), cluster).report;
  REQUIRE(fallback_peak(report));
  // Four layers of 12 · 1,024² elements in fp32.
  CHECK(*fallback_peak(report) - peak_bytes(report) == Approx(4.0 * 4 * 12 * 1024 * 1024));
}

TEST_CASE("a step gives back all that it takes beside states, also of layers that leave FP8") {
  for (const char* pipeline : {"parallel.pipeline=1", "parallel.pipeline=4"}) {
    const Recipe recipe = small_gpt({"precision.fp8_level=O2", delayed, fallback, pipeline});
    const ClusterProfile cluster = profile_of(recipe);
    const Plan plan = make_plan(recipe, cluster);
    const StepMemory memory = make_step_memory({plan.layout->partition(), cluster}, Fp8Layers::after_fallback);
    const Simulation step = simulate(plan.layout->schedule(), plan.costs, memory);
    for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
      double states = memory.rank.total();
      for (std::size_t stage = rank; stage < memory.stages.size(); stage += step.ranks.size())
        states += memory.stages[stage].resident.total();
      CHECK(step.ranks[rank].final_bytes.total() == Approx(states));
      CHECK(step.ranks[rank].peak_bytes > states);
    }
  }
}

// With current scales gradients alone leave, of which there are none without FP8.
TEST_CASE("a recipe whose gradients may leave FP8 is compared with others") {
  const Recipe recipe = small_gpt({"precision.fp8_level=O1", fallback});
  const ClusterProfile cluster = profile_of(recipe);
  const Plan plan = make_plan(recipe, cluster);
  CHECK(fp8_does_not_pay(plan, cluster));
  CHECK_NOTHROW(suggest(plan, cluster));
}

TEST_CASE("a plan without such layers has none") {
  for (const Recipe& recipe : {small_gpt({"precision.fp8_level=O2", delayed}), small_gpt({delayed, fallback})}) {
    const PlanReport report = make_plan(recipe, profile_of(recipe)).report;
    CHECK_FALSE(fallback_peak(report));
    CHECK_FALSE(to_json(report)["ranks"][0].contains("fallback_peak_bytes"));
  }
}

}  // namespace llmtrain::test
