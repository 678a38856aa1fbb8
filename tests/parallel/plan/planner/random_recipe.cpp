// SPDX-License-Identifier: Apache-2.0
#include "random_recipe.h"

#include <rapidcheck.h>

#include "core/base/error.h"
#include "parallel/plan/planner/planner.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

Override word(const std::string& key, const std::vector<std::string>& words) {
  return key + "=" + *rc::gen::elementOf(words);
}

// Recipe and the profile that it names; none if a rule refuses the recipe.
template <class Planned>
std::optional<Plan> unless_refused(const std::vector<Override>& layout, Planned plan) {
  try {
    const Recipe recipe = small_gpt(layout);
    return plan(recipe, profile_of(recipe));
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::bad_recipe);
    RC_ASSERT(std::string(error.what()).find('/') != std::string::npos);
    return std::nullopt;
  }
}

}  // namespace

std::vector<Override> random_layout() {
  const std::vector<int> powers = {1, 1, 2, 2, 4};
  const auto power = [&] { return *rc::gen::elementOf(powers); };
  std::vector<Override> layout = {
      set("model.layers", *rc::gen::element(4, 4, 5, 7)),
      set("parallel.tensor", power()),
      set("parallel.pipeline", power()),
      set("parallel.context", *rc::gen::element(1, 1, 2)),
      set("parallel.data", power()),
      set("batch.global", 8 * power()),
      set("batch.micro", *rc::gen::element(1, 2)),
      set("pipeline.loops", *rc::gen::element(1, 1, 2)),
      set("parallel.zero_stage", *rc::gen::inRange(0, 4)),
      word("pipeline.schedule", {"breadth_first", "gpipe", "1f1b", "interleaved"}),
      word("memory.recompute", {"none", "selective", "computation", "full"}),
      word("kernels.attention", {"flash", "math"}),
      word("parallel.overlap", {"true", "false"}),
      word("precision.compute", {"fp32", "bf16", "fp16"}),
      word("precision.gradients", {"fp32", "bf16"}),
      word("memory.offload.optimizer", {"true", "false"}),
      word("memory.offload.activations", {"true", "false", "false"}),
      word("model.tie_embeddings", {"true", "false"}),
      word("cluster.profile", {"v100-32gb", "h100-sxm-80gb", "a100-40gb", "cpu"}),
      word("cluster.program", {"llmtrain", "llmtrain", "megatron-core", "torchtitan", "llm-foundry", "deepspeed"}),
      word("cluster.nodes", {"1", "2"}),
      word("cluster.devices_per_node", {"2", "4", "8", "8"}),
  };
  if (*rc::gen::arbitrary<bool>()) layout.push_back("model.moe={\"experts\": 4, \"top_k\": 2, \"every\": 2}");
  if (*rc::gen::inRange(0, 3) == 0) layout.push_back("parallel.expert=2");
  if (*rc::gen::inRange(0, 3) == 0) layout.push_back("parallel.zero_shard_ranks=2");
  return layout;
}

std::optional<Plan> plan_if_legal(const std::vector<Override>& layout, Timeline timeline) {
  return unless_refused(layout, [&](const Recipe& recipe, const ClusterProfile& cluster) {
    return make_plan(recipe, cluster, timeline);
  });
}

std::optional<Plan> plan_if_legal(const std::vector<Override>& layout, void (*change)(ClusterProfile&)) {
  return unless_refused(layout, [&](const Recipe& recipe, ClusterProfile cluster) {
    change(cluster);
    return make_plan(recipe, cluster);
  });
}

}  // namespace llmtrain::test
