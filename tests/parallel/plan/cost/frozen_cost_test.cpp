// SPDX-License-Identifier: Apache-2.0
// A step pays for the forward alone of blocks before the first that is trained.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "tests/support/source_folder.h"

namespace llmtrain {
namespace {

// A layer for each of four pipeline ranks, of a program that recomputes them.
StepCosts costs_with(const std::vector<std::string>& overrides) {
  const Layout layout(
      Partition::make(parse_recipe(R"({"model": {"architecture": "llama", "layers": 4, "hidden_size": 1024, "heads": 16,
        "vocab_size": 51200, "max_sequence_length": 1024}, "batch": {"global": 64, "micro": 1},
        "parallel": {"pipeline": 4}, "memory": {"recompute": "full"}, "training": {"steps": 1},
        "precision": {"compute": "bf16"}, "cluster": {"profile": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8}})",
                                   "test", ".", overrides),
                      8));
  const ClusterProfile profile = load_profile("h100-sxm-80gb", test::source_folder() / "recipes/clusters");
  return make_step_costs(PricedLayout(layout.partition(), profile));
}

TEST_CASE("stages before the first that is trained cost their forward") {
  const StepCosts all = costs_with({});
  const StepCosts frozen = costs_with({R"(training.freeze=["embedding.*", "layers.0.*", "layers.1.*"])"});
  for (std::size_t stage = 0; stage < all.stages.size(); ++stage) {
    CAPTURE(stage);
    CHECK(frozen.stages[stage].forward.seconds == all.stages[stage].forward.seconds);
    CHECK(frozen.stages[stage].backward.seconds == (stage < 2 ? 0 : all.stages[stage].backward.seconds));
    CHECK(frozen.stages[stage].backward.recompute_seconds ==
          (stage < 2 ? 0 : all.stages[stage].backward.recompute_seconds));
  }
}

}  // namespace
}  // namespace llmtrain
