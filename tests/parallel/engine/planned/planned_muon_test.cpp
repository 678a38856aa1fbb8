// SPDX-License-Identifier: Apache-2.0
// A step of Muon does what its plan predicts, too: also what ranks send each other of matrices that ZeRO or tensor
// ranks split.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/parallel/engine/planned/planned_expert_layouts.h"
#include "tests/parallel/engine/planned/planned_run.h"

namespace llmtrain::test {
namespace {

const std::vector<RankCase> muon_layouts{
    {1, {}},
    {2, {"precision.compute=\"bf16\""}},
    {2, {"parallel.zero_stage=1"}},
    {3, {"parallel.zero_stage=2", "pipeline.loops=2", "batch.global=12", "precision.compute=\"bf16\""}},
    {4, {"parallel.zero_stage=3", "pipeline.loops=4"}},
    {4, {"parallel.zero_stage=3", "parallel.zero_shard_ranks=2", "pipeline.loops=2"}},
    {2, {"parallel.tensor=2", "memory.recompute=\"full\""}},
    {4, {"parallel.tensor=4", "model.kv_heads=2", "model.architecture=\"gpt2\""}},
    {8, {"parallel.tensor=2", "parallel.pipeline=2", "parallel.zero_stage=1", "model.tie_embeddings=true"}},
    {4, {even, "parallel.expert=2", "parallel.zero_stage=3", "pipeline.loops=2"}},
    {4, {even, "parallel.tensor=4", "parallel.expert_tensor=2"}},
    {4, {even, "parallel.expert_tensor=2", "parallel.zero_stage=1"}},
};

}  // namespace

TEST_CASE("a step of Muon does what is planned") {
  const TrainingSetting setting;
  for (RankCase layout : muon_layouts) {
    layout.overrides.insert(layout.overrides.begin(), "training.optimizer.name=\"muon\"");
    check_layout(setting, layout);
  }
}

}  // namespace llmtrain::test
