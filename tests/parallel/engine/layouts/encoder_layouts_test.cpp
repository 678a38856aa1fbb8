// SPDX-License-Identifier: Apache-2.0
// Models all of whose blocks are bodies: what one rank learns, whatever the layout, and plans that are what runs.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "parallel/plan/planner/memory_limit.h"
#include "tests/parallel/engine/layouts/learned_states.h"
#include "tests/parallel/engine/planned/planned_run.h"
#include "tests/parallel/engine/train_ranks.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

const Overrides of_hidden_tokens{"model.architecture=\"bert\"", "model.kv_heads=4", "data.masking={\"token\": 0}"};
// Nothing is clipped, so that a step is a function of each parameter's gradient alone.
const Overrides encoder = of_hidden_tokens + Overrides{"model.layers=4", "batch.micro=4", "model.tie_embeddings=false",
                                                       "training.clip_norm=0"};

Learned learn(const TrainingSetting& setting, const RankCase& layout, std::int64_t steps = 3) {
  return learn_states(setting.recipe(encoder + layout.overrides), layout.ranks, steps);
}

}  // namespace

TEST_CASE("an encoder learns the same bits on any pipeline, and has the same losses on data ranks and shards of states",
          "[ranks]") {
  const TrainingSetting setting;
  const Overrides compute =
      GENERATE(Overrides{}, Overrides{"model.dropout=0.1"}, Overrides{"precision.compute=\"bf16\""});
  const std::vector<RankCase> layouts{
      {1, {"memory.recompute=\"selective\""}},
      {1, {"memory.recompute=\"full\""}},
      {1, {"pipeline.loops=4"}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"interleaved\"", "pipeline.loops=2"}},
      {4, {"parallel.pipeline=4", "pipeline.schedule=\"gpipe\"", "memory.recompute=\"full\""}},
      {2, {"parallel.pipeline=2", "pipeline.balance=\"blocks\""}},
  };
  check_layouts([&](const RankCase& layout) { return learn(setting, layout); }, compute, layouts);
}

TEST_CASE("an encoder whose head reads the embedding's table learns the same on any pipeline, but for rounding",
          "[ranks]") {
  const TrainingSetting setting;
  const Overrides tied{"model.tie_embeddings=true"};
  const Run expected = learn(setting, {1, tied}, 6).run;
  const std::vector<RankCase> layouts{
      {2, {"parallel.pipeline=2"}},
      {4, {"parallel.pipeline=2", zero(3)}},
      {4, {"parallel.pipeline=4"}},
  };
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_close(learn(setting, {layout.ranks, layout.overrides + tied}, 6).run, expected, 1e-5, 1e-4);
  }
}

TEST_CASE("an encoder in pieces learns the same, but for rounding, in the memory that is planned", "[ranks]") {
  const TrainingSetting setting;
  const Run expected = learn(setting, {1, {}}).run;
  const std::vector<RankCase> layouts{
      {1, {"memory.chunks=3"}},
      {1, {"memory.chunks=2", "memory.recompute=\"full\""}},
      {1, {"memory.chunks=4", "kernels.attention=\"math\""}},
      {2, {"memory.chunks=3", "parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
      {2, {"memory.chunks=5", zero(3)}},
  };
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_close(learn(setting, layout).run, expected, 1e-5, 1e-4);
    check_layout(setting, {layout.ranks, of_hidden_tokens + layout.overrides});
  }
}

TEST_CASE("pieces of an encoder need less memory") {
  const TrainingSetting setting;
  const auto peak = [&](const Overrides& overrides) {
    return plan_of(recipe_of(setting, {1, of_hidden_tokens + overrides})).report.ranks[0].peak_bytes;
  };
  CHECK(peak({"memory.chunks=2"}) < peak({}));
  CHECK(peak({"memory.chunks=4"}) < peak({"memory.chunks=2"}));
}

TEST_CASE("a limit that recomputing does not reach has an encoder run in the fewest pieces that do") {
  const TrainingSetting setting;
  const ClusterProfile cpu = load_profile("cpu", source_folder() / "recipes/clusters");
  const auto recipe_with = [&](const Overrides& overrides) {
    return recipe_of(setting,
                     {1, of_hidden_tokens + Overrides{"batch.micro=8", "batch.sequence_length=32"} + overrides});
  };
  const auto peak = [&](const Recipe& recipe) { return plan_of(recipe).report.ranks[0].peak_bytes; };
  Recipe recipe = recipe_with({});
  const double least = limit_curve(recipe, cpu, 1).front().peak_bytes,
               whole = peak(recipe_with({"memory.recompute=\"full\""}));
  REQUIRE(least < whole);
  for (const double share : {0.0, 0.9}) {
    recipe.memory.limit = std::ceil(least + share * (whole - least));
    INFO("within " << *recipe.memory.limit);
    Recipe settled = settle_memory_limit(recipe, cpu, 1);
    CHECK(settled.memory.chunks > 1);
    CHECK(peak(settled) <= *recipe.memory.limit);
    check_plan(plan_of(settled));
    settled.memory.chunks /= 2;
    CHECK(peak(settled) > *recipe.memory.limit);
  }
  recipe.memory.limit = least - 1;
  CHECK_THROWS_WITH(settle_memory_limit(recipe, cpu, 1), Catch::Contains("/memory/limit"));
}

TEST_CASE("a step of an encoder does what is planned, and takes the memory that is planned") {
  const TrainingSetting setting;
  const Overrides model = GENERATE(Overrides{"model.tie_embeddings=false"}, Overrides{"model.tie_embeddings=true"});
  const std::vector<RankCase> layouts{
      {1, {}},
      {1, {"memory.recompute=\"selective\""}},
      {1, {"memory.recompute=\"full\""}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
      {4, {"parallel.pipeline=2", "pipeline.loops=2", zero(3)}},
      {2, {zero(1)}},
      {2, {zero(2)}},
      {2, {zero(3)}},
      {4, {"parallel.pipeline=4", "memory.recompute=\"full\""}},
  };
  for (const RankCase& layout : layouts)
    check_layout(setting, {layout.ranks, of_hidden_tokens + model + layout.overrides});
}

}  // namespace llmtrain::test
