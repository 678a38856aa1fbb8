// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/layout_estimates.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "parallel/schedule/schedule.h"
#include "random_recipe.h"

namespace llmtrain::test {
namespace {

TEST_CASE("HD ratios") {
  CHECK(rc::check([&] {
    const auto layout = random_layout();
    const auto plan = plan_if_legal(layout);
    if (!plan) return;
    const Partition& p = plan->layout->partition();
    double e = estimate_seconds(p.shape, plan->costs), b = estimate_bytes(p, plan->memory);
    printf("HD %.3f %.3f kind %d p%d L%d m%d z%d overlap %d off %d tensor %ld ctx %ld\n", plan->report.step.seconds / e,
           std::ranges::max_element(plan->report.ranks, {}, &PlannedRank::peak_bytes)->peak_bytes / b,
           int(p.shape.kind), p.shape.pipeline, p.shape.loops, p.shape.micro_batches, p.shape.sharding(),
           plan->costs.overlap, p.recipe.memory.offload.activations, p.mesh.tensor, p.mesh.context);
  }));
}

}  // namespace
}  // namespace llmtrain::test
