// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/search/layout_estimates.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <vector>

#include "core/recipe/pipeline_schedules.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/schedule/schedule.h"
#include "planner_case.h"
#include "random_recipe.h"

namespace llmtrain::test {
namespace {

double estimated_seconds(const Plan& plan) { return estimate_seconds(plan.layout->partition().shape, plan.costs); }
double estimated_bytes(const Plan& plan) { return estimate_bytes(plan.layout->partition(), plan.memory); }

TEST_CASE("estimates of published layouts are near their simulations, and not above them") {
  for (const char* folder : {"papers", "models"}) {
    for (const auto& file : std::filesystem::directory_iterator(recipes() / folder)) {
      INFO(file.path().string());
      const Recipe recipe = read_recipe(file.path());
      const Plan plan = make_plan(recipe, profile_of(recipe));
      CHECK(estimated_seconds(plan) <= 1.03 * plan.report.step.seconds);
      CHECK(estimated_seconds(plan) >= 0.93 * plan.report.step.seconds);
      CHECK(estimated_bytes(plan) <= peak_bytes(plan.report));
      CHECK(estimated_bytes(plan) >= 0.7 * peak_bytes(plan.report));
    }
  }
}

// Where passes are short, they may wait for more or less than estimates know.
TEST_CASE("no estimate is far from its simulation, and of bytes none above it") {
  CHECK(rc::check([&] {
    const auto plan = plan_if_legal(random_layout());
    RC_CLASSIFY(plan.has_value(), "planned");
    if (!plan) return;
    RC_ASSERT(estimated_bytes(*plan) <= peak_bytes(plan->report) * (1 + 1e-9));
    RC_ASSERT(estimated_seconds(*plan) <= 1.4 * plan->report.step.seconds);
    RC_ASSERT(estimated_seconds(*plan) >= 0.5 * plan->report.step.seconds);
  }));
}

TEST_CASE("the passes that are alive as the first backward begins are those of the schedule") {
  CHECK(rc::check([] {
    ScheduleShape shape;
    shape.kind = *rc::gen::element(PipelineSchedule::breadth_first, PipelineSchedule::gpipe,
                                   PipelineSchedule::one_forward_one_backward, PipelineSchedule::interleaved);
    shape.pipeline = *rc::gen::inRange(1, 5);
    const bool has_loops = takes_loops(shape.kind, shape.pipeline, 2);
    shape.loops = has_loops ? *rc::gen::inRange(1, 5) : 1;
    const auto group = static_cast<std::int32_t>(micro_batch_group(shape.kind, shape.pipeline, shape.loops));
    shape.micro_batches = *rc::gen::inRange(1, 6) * group;
    for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) {
      std::vector<std::int64_t> alive(static_cast<std::size_t>(shape.loops));
      for (const Instruction& pass : pass_order(shape, rank)) {
        if (pass.operation == Operation::backward) break;
        ++alive[static_cast<std::size_t>(pass.stage / shape.pipeline)];
      }
      RC_ASSERT(alive_passes(shape, rank) == alive);
    }
  }));
}

TEST_CASE("the window of equal stages is that of the schedules' papers") {
  // Narayanan et al., arXiv 2104.04473: a bubble of (p - 1) / (v m) of the work.
  CHECK(least_window(4, 1, 8, 4) == Approx(8 + 3));
  CHECK(least_window(4, 2, 8, 4) == Approx(8 + 1.5));
  CHECK(least_window(1, 3, 8, 4) == Approx(32));
  // Fewer micro-batches than ranks: in every loop each goes through all of them.
  CHECK(least_window(4, 2, 1, 4) == Approx(4));
  CHECK(least_window(4, 2, 2, 4) == Approx(4 + 0.5));
}

}  // namespace
}  // namespace llmtrain::test
