// SPDX-License-Identifier: Apache-2.0
// What a search finds on L4 GPUs beside what Mist's search found and ran (Zhu et al., arXiv 2503.19050; CentML/Mist,
// tests/published/mist.csv), and both relative to the best recipes of Megatron-LM and DeepSpeed that its authors found.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "parallel/plan/planner/planner.h"
#include "parallel/plan/published/row_recipes.h"
#include "parallel/plan/search/search.h"
#include "tests/parallel/plan/planner/planner_case.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

Recipe recipe_of(const published::Columns& row, const std::vector<Override>& overrides = {}) {
  std::vector<Override> all = {"model.architecture=" + row.at("architecture"),
                               "model.layers=" + row.at("layers"),
                               "model.hidden_size=" + row.at("hidden"),
                               "model.heads=" + row.at("heads"),
                               "model.ffn_hidden_size=" + row.at("ffn"),
                               "model.vocab_size=50304",
                               "model.tie_embeddings=false",
                               "model.max_sequence_length=2048",
                               "batch.global=" + row.at("batch"),
                               "training.clip_norm=0",
                               "precision.gradients=fp16",
                               "kernels.attention=flash",
                               "cluster.profile=l4",
                               "cluster.program=megatron-lm",
                               "cluster.devices_per_node=" + row.at("devices")};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return small_gpt(all);
}

// Google's L4 as Mist states and measured them: the memory, and the ways to the host and to other GPUs, as its tuned
// configurations have them. Logits are fp16 in all three programs (--fp16-lm-cross-entropy).
ClusterProfile cluster_of(const Recipe& recipe) {
  ClusterProfile cluster = profile_of(recipe);
  cluster.device.memory_bytes = 22.488 * (1 << 30);
  cluster.device.pcie_bandwidth = 5.75e9;
  cluster.node.link_bandwidth = 4.5e9;
  cluster.program.traffic.loss_in_fp32 = false;
  // Clocks were held at 1,050 MHz. The share of the sheet's rate is the one with which the first row's Megatron-LM
  // takes what it took; the other 17 figures decided nothing.
  cluster.device.peak_flops.fp16 *= 0.8;
  return cluster;
}

// The fastest of the recipes, each "data tensor pipeline micro", with "host" where its optimizer is there. All
// recompute their layers and shard what AdamW keeps.
double fastest(const published::Columns& row, const std::string& recipes) {
  double seconds = std::numeric_limits<double>::infinity();
  std::istringstream text(recipes);
  for (std::string one; std::getline(text, one, ';');) {
    std::istringstream words(one);
    std::string data, tensor, pipeline, micro, place;
    words >> data >> tensor >> pipeline >> micro >> place;
    const std::string zero = data == "1" ? "0" : place == "host" ? "2" : "1";
    const Recipe recipe =
        recipe_of(row, {"parallel.data=" + data, "parallel.tensor=" + tensor, "parallel.pipeline=" + pipeline,
                        "batch.micro=" + micro, "parallel.zero_stage=" + zero, "memory.recompute=full",
                        std::string("memory.offload.optimizer=") + (place == "host" ? "true" : "false")});
    seconds = std::min(seconds, make_plan(recipe, cluster_of(recipe)).report.step.seconds);
  }
  return seconds;
}

double error(double planned, double measured) { return planned / measured - 1; }

}  // namespace

// The errors are those that docs/planner.md states, rounded up to a whole percent.
TEST_CASE("what a search finds on L4 is as fast as Mist's, and faster than others' recipes by what Mist states",
          "[exhaustive]") {
  int hosts = 0;
  for (const published::Columns& row : published::read_columns(source_folder() / "tests/published/mist.csv")) {
    const Recipe recipe = recipe_of(row);
    const SearchResult result = search_layouts(recipe, cluster_of(recipe));
    REQUIRE(result.best);
    const SearchCandidate& best = result.front[*result.best];
    const double mist = std::stod(row.at("mist_seconds"));
    const double megatron = fastest(row, row.at("megatron")), deepspeed = fastest(row, row.at("deepspeed"));
    INFO(row.at("architecture") << " " << row.at("hidden") << ": planned " << best.step_seconds << " s, Mist's " << mist
                                << " s, Megatron-LM " << megatron << " s, DeepSpeed " << deepspeed << " s");
    CHECK(std::abs(error(best.step_seconds, mist)) < 0.11);
    // Its Llama of 1.3B ran a quarter slower with Megatron-LM than its GPT, for which both have the same work.
    const double over_megatron = error(megatron / best.step_seconds, std::stod(row.at("over_megatron")));
    CHECK((over_megatron > -0.26 && over_megatron < 0.12));
    // ZeRO-Offload took 1.7 times what the updates and copies of its host are planned to.
    const double over_deepspeed = error(deepspeed / best.step_seconds, std::stod(row.at("over_deepspeed")));
    CHECK((over_deepspeed > -0.36 && over_deepspeed < 0));
    if (best.recipe.memory.offload.optimizer != StatesPlace::host) continue;
    ++hosts;
    CHECK(best.recipe.memory.recompute == Recompute::none);
  }
  // Mist's plans of 7 billion parameters have stages whose optimizer states are partly on the host.
  CHECK(hosts == 2);
}

}  // namespace llmtrain::test
