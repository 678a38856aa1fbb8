// SPDX-License-Identifier: Apache-2.0
// Plans of recipes that list which layers run again.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "parallel/plan/planner/neighbours.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/search/layout_space.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

Plan plan_with(const std::string& recompute, std::vector<Override> more = {}) {
  more.insert(more.end(), {"cluster.profile=h100-sxm-80gb", "precision.compute=bf16", "batch.global=64",
                           "batch.micro=2", "model.layers=8", "memory.recompute=" + recompute});
  const Recipe recipe = small_gpt(more);
  return make_plan(recipe, profile_of(recipe));
}

const std::vector<std::vector<Override>> layouts{
    {"parallel.zero_stage=0"},
    {"parallel.pipeline=2", "pipeline.loops=2"},
    {"parallel.pipeline=4", "pipeline.schedule=1f1b"},
    {"parallel.tensor=2", "parallel.zero_stage=3"},
    {"parallel.context=2", "memory.offload.activations=true"},
};

TEST_CASE("a list of all layers is planned as its word", "[recompute]") {
  for (const std::vector<Override>& layout : layouts) {
    for (const std::string word : {"none", "selective", "computation", "full"}) {
      INFO(layout.front() << " " << word);
      const Plan listed = plan_with(R"({")" + word + R"(": ["0-3", 4, "5-7"]})", layout);
      const Plan expected = plan_with(word, layout);
      CHECK(listed.report.step.seconds == expected.report.step.seconds);
      CHECK(listed.report.throughput.hfu == expected.report.throughput.hfu);
      REQUIRE(listed.report.ranks.size() == expected.report.ranks.size());
      for (std::size_t rank = 0; rank < expected.report.ranks.size(); ++rank) {
        CHECK(listed.report.ranks[rank].peak_bytes == expected.report.ranks[rank].peak_bytes);
        CHECK(listed.report.ranks[rank].bytes.bytes == expected.report.ranks[rank].bytes.bytes);
      }
      REQUIRE(listed.report.communication.size() == expected.report.communication.size());
      for (std::size_t i = 0; i < expected.report.communication.size(); ++i)
        CHECK(listed.report.communication[i].bytes_per_rank_per_step ==
              expected.report.communication[i].bytes_per_rank_per_step);
    }
  }
}

// Layers are numbered over the whole model: stage s of four, on rank s mod 2, has layers 2s and 2s + 1.
TEST_CASE("a stage's time and memory are those of its own layers", "[recompute]") {
  const std::vector<Override> layout{"parallel.pipeline=2", "pipeline.loops=2"};
  const Plan none = plan_with("none", layout), full = plan_with("full", layout);
  const Plan mixed = plan_with(R"({"full": ["2-3", 5]})", layout);
  const auto backward = [](const Plan& plan, std::size_t stage) { return plan.costs.stages[stage].backward.seconds; };
  const auto kept = [](const Plan& plan, std::size_t stage) {
    return plan.memory.stages[stage].held(MemoryEvent::forward_starts, MemoryEvent::backward_ends);
  };
  for (const std::size_t stage : {0, 3}) {
    CHECK(backward(mixed, stage) == backward(none, stage));
    CHECK(kept(mixed, stage) == kept(none, stage));
  }
  CHECK(backward(mixed, 1) == backward(full, 1));
  CHECK(kept(mixed, 1) == kept(full, 1));
  // One of two.
  CHECK(backward(mixed, 2) == Approx((backward(none, 2) + backward(full, 2)) / 2));
  CHECK(kept(mixed, 2) == Approx((kept(none, 2) + kept(full, 2)) / 2));
  CHECK(backward(none, 2) < backward(full, 2));
  CHECK(kept(none, 2) > kept(full, 2));
}

TEST_CASE("on one rank each further layer that runs again saves memory and costs time", "[recompute]") {
  Plan before = plan_with("none", {"cluster.devices_per_node=1"});
  for (int layers = 1; layers <= 8; ++layers) {
    const Plan plan =
        plan_with(R"({"full": ["0-)" + std::to_string(layers - 1) + R"("]})", {"cluster.devices_per_node=1"});
    CHECK(plan.report.step.seconds > before.report.step.seconds);
    // The last layer's tensors are alive in its backward in any case.
    if (layers < 8) CHECK(plan.report.ranks.front().peak_bytes < before.report.ranks.front().peak_bytes);
    before = plan;
  }
}

// A list that stayed would win over the word that a search or a suggestion names.
TEST_CASE("a recipe that lists layers has layouts and neighbours of one word for all", "[recompute]") {
  const Recipe recipe =
      small_gpt({"cluster.profile=h100-sxm-80gb", "model.layers=8", R"(memory.recompute={"full": [3]})"});
  const Partition partition = partition_for(recipe, profile_of(recipe), 1);
  REQUIRE_FALSE(recipe.memory.recompute_of_layers.empty());

  const LayoutSpace space(recipe, partition.mesh, *partition.graph);
  std::vector<Recompute> changed;
  for (const Recipe& other : neighbours(recipe, partition.mesh))
    if (other.memory != recipe.memory && other.memory.recompute_of_layers.empty())
      changed.push_back(other.memory.recompute);
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    const MemoryRecipe expected{.recompute = recompute, .recompute_of_layers = {}, .limit = {}, .offload = {}};
    CHECK(space.recipe({.degrees = {}, .sharding = {}, .passes = {.recompute = recompute}, .stages = {}}).memory ==
          expected);
    CHECK(std::ranges::count(changed, recompute) == 1);
  }
}

}  // namespace
}  // namespace llmtrain::test
