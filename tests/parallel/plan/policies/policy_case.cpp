// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/plan/policies/policy_case.h"

#include "parallel/plan/planner/planner.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

constexpr const char* recipe_text = R"({
  "model": {"architecture": "gpt2", "layers": 6, "hidden_size": 1024, "heads": 16, "vocab_size": 8192,
            "max_sequence_length": 512},
  "batch": {"global": 4, "micro": 1},
  "training": {"steps": 100, "clip_norm": 0},
  "precision": {"compute": "bf16", "gradients": "bf16"},
  "cluster": {"profile": "a100-40gb", "nodes": 1, "devices_per_node": 1, "device": "cuda"}
})";

}  // namespace

Recipe six_layers(const std::vector<Override>& overrides) { return parse_recipe(recipe_text, "six", ".", overrides); }

ClusterProfile profile_of(const Recipe& recipe) {
  const auto recipes = source_folder() / "recipes";
  ClusterProfile named = load_profile(recipe.cluster.profile, recipes / "clusters");
  named.program = load_program(recipe.cluster.program, recipes / "programs", named.device.kind);
  return named;
}

Plan plan_of(const Recipe& recipe) { return make_plan(recipe, profile_of(recipe)); }

}  // namespace llmtrain::test
