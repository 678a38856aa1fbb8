// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/plan/policies/policy_case.h"

#include "parallel/plan/planner/planner.h"
#include "tests/parallel/plan/planner/planner_case.h"

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

Plan plan_of(const Recipe& recipe) { return make_plan(recipe, profile_of(recipe)); }

}  // namespace llmtrain::test
