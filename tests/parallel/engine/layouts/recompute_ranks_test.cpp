// SPDX-License-Identifier: Apache-2.0
// What the backward makes again, with other ranks or with what they sent before, is what it did not keep.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

// Half of the tokens' choices find no place; which ones depends on all ranks that share the micro-batch.
const std::string dropping_experts =
    "model.moe={\"experts\": 4, \"top_k\": 2, \"capacity_factor\": 0.5, \"ffn_hidden_size\": 32, \"jitter\": 0.1, "
    "\"priority\": \"score\"}";

const std::vector<RankCase> recomputing{
    {4,
     {"parallel.tensor=2", "parallel.context=2", "model.architecture=\"gpt2\"", "model.dropout=0.1",
      "pipeline.loops=2"}},
    {4, {"parallel.tensor=2", "parallel.sequence=false", "parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
    {4, {dropping_experts, "parallel.tensor=2", "parallel.expert=2", "parallel.expert_overlap=2"}},
    {4,
     {dropping_experts, "parallel.tensor=2", "parallel.sequence=false", "parallel.expert_tensor=1", "parallel.expert=2",
      "model.moe.shared_experts=1", "precision.fp8_level=\"O1\""}},
    {4,
     {dropping_experts, "parallel.context=2", "parallel.expert=2", "precision.compute=\"bf16\"",
      "parallel.zero_stage=3"}},
    {2, {"parallel.tensor=2", "precision.fp8_level=\"O3\""}},
};

}  // namespace

TEST_CASE("recompute changes no bit of what ranks learn", "[ranks]") {
  const TrainingSetting setting;
  for (const auto& [ranks, overrides] : recomputing) {
    const Overrides given = Overrides{"model.layers=4", "batch.micro=2"} + overrides;
    const Run expected = train_ranks(setting, ranks, given, 3);
    // The lists name layers of different ranks and stages.
    for (const std::string recompute :
         {R"("selective")", R"("computation")", R"("full")", R"({"full": [2], "computation": [0], "selective": [1]})",
          R"({"computation": ["1-3"]})"}) {
      const Overrides all = given + Overrides{"memory.recompute=" + recompute};
      INFO(in_words(ranks, all));
      check_equal(train_ranks(setting, ranks, all, 3), expected);
    }
  }
}

}  // namespace llmtrain::test
