// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <limits>

#include "core/base/error.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/search/search.h"
#include "planner_case.h"
#include "random_recipe.h"

namespace llmtrain::test {
namespace {

// A model, batch and cluster with what the search found for them.
struct Searched {
  std::vector<Override> asked;
  double fastest = std::numeric_limits<double>::infinity();
};

Searched searched(std::vector<Override> asked) {
  const Recipe recipe = small_gpt(asked);
  const SearchResult result = search_layouts(recipe, profile_of(recipe));
  REQUIRE_FALSE(result.front.empty());
  return {std::move(asked), result.front.front().step_seconds};
}

// Plenty of memory and little of it, one node and two, a batch with a factor of three, experts in the two meshes that
// programs give them.
std::vector<Searched> searched_recipes() {
  return {searched({}), searched({"model.hidden_size=6144", "model.layers=8", "batch.global=48"}),
          searched({"cluster.profile=a100-80gb", "cluster.nodes=2", "model.hidden_size=4096", "model.heads=32",
                    "model.layers=32", "model.max_sequence_length=4096", "kernels.attention=flash",
                    "precision.compute=bf16", "batch.global=96"}),
          searched({"cluster.profile=h100-sxm-80gb", "cluster.nodes=2", "model.hidden_size=4096", "model.layers=8",
                    "model.moe={\"experts\": 8, \"top_k\": 2}", "precision.compute=bf16", "batch.global=96"}),
          searched({"cluster.profile=h100-sxm-80gb", "cluster.nodes=2", "cluster.program=megatron-core",
                    "model.hidden_size=4096", "model.layers=8", "model.moe={\"experts\": 8, \"top_k\": 2}",
                    "precision.compute=bf16", "batch.global=96"})};
}

// Any values of the keys that a search chooses.
std::vector<Override> random_choice() {
  const auto one_of = [](const std::vector<std::string>& words) { return *rc::gen::elementOf(words); };
  return {"parallel.data=auto",
          "parallel.tensor=" + one_of({"1", "2", "4", "8", "16"}),
          "parallel.pipeline=" + one_of({"1", "1", "2", "3", "4", "8"}),
          "parallel.zero_stage=" + one_of({"0", "1", "2", "3"}),
          "parallel.expert=" + one_of({"1", "1", "2", "4", "8"}),
          "parallel.expert_tensor=" + one_of({"1", "1", "2", "4"}),
          "parallel.context=" + one_of({"1", "1", "2", "4"}),
          "pipeline.balance=" + one_of({"layers", "layers", "blocks"}),
          "pipeline.schedule=" + one_of({"breadth_first", "gpipe", "1f1b", "interleaved"}),
          "pipeline.loops=" + one_of({"1", "1", "2", "3", "4", "8", "32"}),
          "batch.micro=" + one_of({"1", "2", "3", "4", "6", "8", "12", "24"}),
          "memory.recompute=" + one_of({"none", "selective", "computation", "full"})};
}

// More stages on one pipeline rank at ZeRO-0 and -1 move traffic that is hidden anyway; the search leaves them out.
constexpr double negligible = 1e-3;

TEST_CASE("no random legal layout is faster than what a search finds", "[exhaustive]") {
  const std::vector<Searched> all = searched_recipes();
  CHECK(rc::check([&] {
    const Searched& searched = *rc::gen::elementOf(all);
    std::vector<Override> layout = searched.asked;
    for (Override& key : random_choice()) layout.push_back(std::move(key));
    const auto plan = plan_if_legal(layout);
    RC_CLASSIFY(plan.has_value(), "planned");
    if (!plan || !plan->report.fits) return;
    RC_LOG() << plan->report.step.seconds << " s, the search found " << searched.fastest << " s\n";
    RC_ASSERT(plan->report.step.seconds >= searched.fastest * (1 - negligible));
  }));
}

}  // namespace
}  // namespace llmtrain::test
