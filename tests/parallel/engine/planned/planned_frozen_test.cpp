// SPDX-License-Identifier: Apache-2.0
// A step of which parameters are frozen does what its plan predicts, too.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/parallel/engine/planned/planned_expert_layouts.h"
#include "tests/parallel/engine/planned/planned_run.h"

namespace llmtrain::test {
namespace {

// All matrices but those of a layer and the head; all but norms, also of a tied embedding.
const char* const most_frozen = R"(training.freeze=["embedding.*", "layers.0.*", "layers.1.*", "layers.3.*"])";
// All layers but the last: the first stages have no backward.
const char* const last_trained = R"(training.freeze=["embedding.*", "layers.0.*", "layers.1.*", "layers.2.*"])";
const char* const matrices_frozen = R"(training.freeze=["embedding.*", "*.attention.*", "*.ffn.*"])";

const char* const adapters = R"(model.lora={"rank": 4, "targets": ["*.attention.*.weight", "*.ffn.*.weight"]})";

const char* const dropped_adapters =
    R"(model.lora={"rank": 4, "dropout": 0.1, "targets": ["*.attention.*.weight", "*.ffn.*.weight"]})";

const char* const saved_modules =
    R"(model.lora={"rank": 4, "targets": ["*.attention.*"],
                   "modules_to_save": ["embed_tokens", "lm_head", "*.ffn.down"]})";

const char* const magnitudes =
    R"(model.lora={"rank": 4, "dora": true, "targets": ["*.attention.*.weight", "*.ffn.*.weight"]})";
const char* const dropped_magnitudes =
    R"(model.lora={"rank": 4, "dora": true, "dropout": 0.1, "targets": ["q_proj", "v_proj", "down_proj"]})";

const std::vector<RankCase> frozen_layouts{
    {1, {most_frozen}},
    {2, {most_frozen, "parallel.zero_stage=1", "precision.compute=\"bf16\""}},
    {2, {most_frozen, "parallel.zero_stage=2", "pipeline.loops=4"}},
    {2, {most_frozen, "parallel.zero_stage=3", "pipeline.loops=4", "memory.recompute=\"full\""}},
    {4, {most_frozen, "parallel.zero_stage=3", "parallel.zero_shard_ranks=2", "pipeline.loops=2"}},
    {2, {most_frozen, "parallel.tensor=2"}},
    {1, {last_trained, "pipeline.loops=4", "batch.micro=1"}},
    {2, {last_trained, "parallel.pipeline=2", "pipeline.schedule=\"1f1b\"", "batch.micro=1"}},
    {2, {last_trained, "parallel.zero_stage=3", "pipeline.loops=4", "memory.recompute=\"computation\""}},
    {4, {last_trained, "parallel.zero_stage=3", "parallel.pipeline=2", "pipeline.loops=2", "memory.arena=true"}},
    {4, {matrices_frozen, "model.tie_embeddings=true", "parallel.tensor=2", "parallel.zero_stage=2"}},
    {2, {matrices_frozen, "model.tie_embeddings=true", "parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
    {2, {matrices_frozen, "model.tie_embeddings=true", "parallel.zero_stage=3", "pipeline.loops=2"}},
    {8,
     {most_frozen, "parallel.tensor=2", "parallel.pipeline=2", "pipeline.loops=2", "parallel.zero_stage=3",
      "parallel.sequence=false"}},
    {2, {most_frozen, "precision.fp8_level=\"O0\"", "parallel.tensor=2", "precision.compute=\"bf16\""}},
    {2, {"model.architecture=\"gpt2\"", R"(training.freeze=["embedding.token.*", "*.bias"])", "parallel.tensor=2"}},
    {4, {dropless, R"(training.freeze=["*.experts.*", "embedding.*"])", "parallel.zero_stage=3", "pipeline.loops=2"}},
    // Experts that are joined of slices, those of one layer and all of them.
    {4,
     {even, R"(training.freeze=["layers.1.ffn.experts.*", "embedding.*"])", "parallel.expert_slices=4",
      "parallel.zero_stage=3", "pipeline.loops=4"}},
    {4,
     {even, R"(training.freeze=["*.experts.*"])", "parallel.expert=2", "parallel.expert_slices=2",
      "parallel.zero_stage=3", "pipeline.loops=2"}},
    {1, {adapters}},
    {2, {adapters, "parallel.zero_stage=2", "pipeline.loops=4", "precision.compute=\"bf16\""}},
    {2, {adapters, "parallel.zero_stage=3", "pipeline.loops=2", "memory.recompute=\"selective\""}},
    {4, {adapters, "parallel.tensor=4", "model.kv_heads=2"}},
    {8, {adapters, "parallel.tensor=2", "parallel.pipeline=2", "parallel.zero_stage=1", "parallel.sequence=false"}},
    {2, {saved_modules, "parallel.zero_stage=3", "pipeline.loops=2"}},
    {4, {saved_modules, "parallel.tensor=2", "parallel.pipeline=2", "precision.compute=\"bf16\""}},
    {1, {magnitudes}},
    {4, {magnitudes, "parallel.tensor=2", "parallel.zero_stage=3", "pipeline.loops=2"}},
    {2, {dropped_magnitudes, "parallel.tensor=2", "memory.recompute=\"computation\""}},
    {1, {dropped_adapters}},
    {2, {dropped_adapters, "parallel.tensor=2", "memory.recompute=\"selective\""}},
};

}  // namespace

TEST_CASE("a step of which parameters are frozen does what is planned") {
  const TrainingSetting setting;
  for (const RankCase& layout : frozen_layouts) check_layout(setting, layout);
}

}  // namespace llmtrain::test
