// SPDX-License-Identifier: Apache-2.0
// What a model with two heads costs.
#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <utility>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "tests/core/graph/two_headed_graph.h"
#include "tests/support/source_folder.h"

namespace llmtrain {

TEST_CASE("a second head adds to its stage what the first one takes, but for the host's work per micro-batch") {
  const Recipe recipe = parse_recipe(R"({"model": {"architecture": "gpt2", "layers": 4, "hidden_size": 1024,
    "heads": 16, "vocab_size": 51200, "max_sequence_length": 1024}, "batch": {"global": 64, "micro": 1},
    "training": {"steps": 1}, "precision": {"compute": "bf16"}, "parallel": {"pipeline": 2},
    "cluster": {"profile": "a100-80gb", "nodes": 1, "devices_per_node": 8}})",
                                     "test", ".", {});
  ClusterProfile profile = load_profile("a100-80gb", test::source_folder() / "recipes/clusters");
  profile.host.micro_batch_seconds = 0.25;
  const auto costs_of = [&](Graph graph) {
    const Partition partition = Partition::make(recipe, 8, std::make_shared<const Graph>(std::move(graph)));
    return make_step_costs({partition, profile});
  };
  const StepCosts one = costs_of(Graph::build(recipe.model));
  const Partition partition = Partition::make(recipe, 8);
  const PricedLayout priced(partition, profile);
  const StageCost head = block_cost(priced, priced.operators.of(priced.graph().blocks.size() - 1), Recompute::none);
  // At the end of the model, or in the first stage.
  for (const auto place : {test::HeadPlace::last, test::HeadPlace::behind_its_layer}) {
    const StepCosts two = costs_of(test::two_headed_graph(recipe.model, 0, place));
    const std::size_t stage = place == test::HeadPlace::last ? 1 : 0;
    const StageCost &with = two.stages[stage], &without = one.stages[stage];
    CHECK(with.forward.seconds - without.forward.seconds == Approx(head.forward.seconds - 0.25));
    CHECK(two.stages[1 - stage].forward.seconds == one.stages[1 - stage].forward.seconds);
    CHECK(with.backward.seconds - without.backward.seconds == Approx(head.backward.seconds));
  }
}

}  // namespace llmtrain
