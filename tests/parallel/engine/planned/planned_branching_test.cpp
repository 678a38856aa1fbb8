// SPDX-License-Identifier: Apache-2.0
// Values that cross several cuts: what is sent of them, and what ranks hold that they only pass through.
#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/plan/profile/cluster_profile.h"
#include "tests/parallel/engine/branching_layout.h"
#include "tests/parallel/engine/planned/planned_run.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

using Event = MemoryEvent;

const Overrides branching{"model.layers=8", "model.tie_embeddings=false"};

const std::vector<RankCase> branching_layouts{
    {1, {}},
    {1, {"pipeline.loops=4"}},
    {1, {"pipeline.loops=8", "memory.recompute=\"full\""}},
    {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
    {4, {"parallel.pipeline=4", "pipeline.schedule=\"gpipe\"", "memory.recompute=\"full\""}},
    {8, {"parallel.pipeline=8", "pipeline.schedule=\"1f1b\"", "memory.recompute=\"selective\""}},
    {2, {"parallel.pipeline=2", "pipeline.schedule=\"interleaved\"", "pipeline.loops=4"}},
    {4, {"parallel.pipeline=2", "parallel.tensor=2", "pipeline.loops=2"}},
    {4, {"parallel.pipeline=2", "parallel.tensor=2", "parallel.sequence=true"}},
    {4, {"parallel.pipeline=2", "pipeline.loops=2", "parallel.zero_stage=3"}},
};

Plan plan_with_work(std::shared_ptr<const Layout> layout) {
  const ClusterProfile profile = load_profile("cpu", source_folder() / "recipes/clusters");
  return make_plan(std::move(layout), profile, Timeline::record);
}

}  // namespace

TEST_CASE("a step of blocks that read values of several earlier ones does what is planned") {
  const TrainingSetting setting;
  for (const RankCase& layout : branching_layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    const RankCase deeper{layout.ranks, branching + layout.overrides};
    check_plan(plan_of(branching_layout(recipe_of(setting, deeper), layout.ranks)), make_summing_block);
  }
}

TEST_CASE("each cut sends the values that cross it") {
  const TrainingSetting setting;
  // Eight stages of a layer each.
  for (const Overrides& stages :
       {Overrides{"parallel.pipeline=8"}, Overrides{"parallel.pipeline=4", "pipeline.loops=2"}}) {
    const int ranks = stages.size() == 1 ? 8 : 4;
    const auto layout = branching_layout(recipe_of(setting, {ranks, branching + stages}), ranks);
    const Plan plan = plan_of(layout);
    const double micros = layout->partition().shape.micro_batches, value = 4 * 32 * 128;
    const std::vector<double> across{1, 2, 3, 2, 2, 1, 1};
    for (std::size_t cut = 0; cut < across.size(); ++cut) {
      INFO("cut " << cut);
      const StageMemory &before = plan.memory.stages[cut], &behind = plan.memory.stages[cut + 1];
      CHECK(before.held(Event::forward_starts, Event::activation_is_sent) == across[cut] * value);
      CHECK(behind.held(Event::activation_arrives, Event::forward_ends) == across[cut] * value);
      CHECK(plan.costs.transfer_seconds[cut] == Approx(across[cut] * plan.costs.transfer_seconds.front()));
    }
    // What crosses the cuts before and behind each of the rank's one or two stages: activations in one direction, their
    // gradients in the other.
    const double busiest = ranks == 8 ? 3 + 2 : (2 + 3) + (1 + 1);
    CHECK(traffic_of(plan).at("pipeline send_receive") == micros * busiest * value);
    REQUIRE(plan_with_work(layout).report.work.transfer.size() == 1);
    CHECK(plan_with_work(layout).report.work.transfer[0].count == 3);
  }
}

TEST_CASE("splitting one rank's model into stages moves values that branch between them and loses none") {
  const TrainingSetting setting;
  const auto saved = [&](const std::string& loops) {
    const Recipe recipe = recipe_of(setting, {1, branching + Overrides{"pipeline.loops=" + loops}});
    double bytes = 0;
    for (const StageMemory& stage : plan_of(branching_layout(recipe, 1)).memory.stages)
      bytes += stage.held(Event::forward_starts, Event::backward_ends);
    return bytes;
  };
  const double whole = saved("1");
  for (const char* loops : {"2", "4", "8"}) CHECK(saved(loops) == whole);
}

}  // namespace llmtrain::test
