// SPDX-License-Identifier: Apache-2.0
// A step does what its plan predicts: the instructions, the bytes that every rank sends, and the memory that it needs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "parallel/device/measurement.h"
#include "tests/parallel/engine/planned/planned_expert_layouts.h"
#include "tests/parallel/engine/planned/planned_run.h"

namespace llmtrain::test {
namespace {

// Four layers, which ZeRO splits unevenly into 11 parts of one size.
const std::vector<RankCase> layouts{
    {2, {}},
    {2, {"parallel.zero_stage=1", "pipeline.loops=2"}},
    {2, {"parallel.zero_stage=2", "pipeline.loops=4"}},
    {2, {"parallel.zero_stage=3", "pipeline.loops=4"}},
    {3, {"parallel.zero_stage=3", "pipeline.loops=2", "batch.global=12"}},
    {4, {"parallel.zero_stage=3"}},
    {4, {"parallel.zero_stage=3", "pipeline.loops=4", "pipeline.schedule=\"breadth_first\""}},
    {4, {"parallel.zero_stage=2", "pipeline.loops=4", "pipeline.schedule=\"breadth_first\""}},
    {4, {"parallel.zero_stage=3", "pipeline.loops=2", "pipeline.schedule=\"1f1b\"", "parallel.overlap=false"}},
    {4, {"parallel.zero_stage=3", "pipeline.loops=6", "pipeline.balance=\"blocks\"", "pipeline.schedule=\"gpipe\""}},
    {4, {"parallel.zero_stage=2", "parallel.zero_shard_ranks=2", "pipeline.loops=2"}},
    {4, {"parallel.zero_stage=3", "parallel.zero_shard_ranks=1", "pipeline.loops=2"}},
    {4, {"parallel.zero_stage=3", "pipeline.schedule=\"breadth_first\"", "precision.compute=\"bf16\""}},
    {4, {"parallel.zero_stage=1", "precision.compute=\"bf16\"", "precision.gradients=\"bf16\""}},
    {4, {"parallel.zero_stage=3", "pipeline.loops=2", "model.tie_embeddings=true", "model.vocab_size=513"}},
    {2, {"parallel.zero_stage=1", "memory.recompute=\"full\""}},
    {2, {"parallel.zero_stage=3", "pipeline.loops=4", "memory.recompute=\"selective\""}},
    {2, {"model.architecture=\"gpt2\"", "model.dropout=0.1", "parallel.zero_stage=2", "pipeline.loops=2"}},
    {8, {"parallel.zero_stage=3", "pipeline.loops=4", "batch.global=16"}},
    {2, {"parallel.pipeline=2", "pipeline.schedule=\"gpipe\""}},
    {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\"", "model.tie_embeddings=true"}},
    {2, {"parallel.pipeline=2", "pipeline.loops=2"}},
    {2, {"parallel.pipeline=2", "pipeline.loops=2", "parallel.overlap=false"}},
    {2, {"parallel.pipeline=2", "pipeline.balance=[1,3]", "memory.recompute=\"full\""}},
    {4, {"parallel.pipeline=2", "pipeline.loops=2", "parallel.zero_stage=3"}},
    {4, {"parallel.pipeline=2", "pipeline.loops=2", "parallel.zero_stage=3", "pipeline.schedule=\"interleaved\""}},
    {4, {"parallel.pipeline=2", "pipeline.loops=3", "parallel.zero_stage=2", "pipeline.balance=\"blocks\""}},
    {4,
     {"parallel.pipeline=2", "pipeline.loops=2", "parallel.zero_stage=3", "model.tie_embeddings=true",
      "precision.compute=\"bf16\""}},
    {6,
     {"parallel.pipeline=2", "pipeline.loops=2", "parallel.zero_stage=3", "pipeline.schedule=\"interleaved\"",
      "batch.global=12", "model.tie_embeddings=true", "model.vocab_size=515"}},
    {6,
     {"parallel.pipeline=2", "parallel.zero_stage=2", "pipeline.schedule=\"1f1b\"", "batch.global=12",
      "model.tie_embeddings=true", "model.vocab_size=515"}},
    {4, {"parallel.pipeline=4", "pipeline.schedule=\"1f1b\""}},
    {8, {"parallel.pipeline=4", "parallel.zero_stage=1", "model.architecture=\"gpt2\""}},
    {2, {"parallel.tensor=2"}},
    {2, {"parallel.tensor=2", "parallel.sequence=false", "model.vocab_size=513"}},
    {4, {"parallel.tensor=4", "model.architecture=\"gpt2\"", "model.vocab_size=513", "memory.recompute=\"full\""}},
    {4, {"parallel.tensor=2", "pipeline.loops=4", "parallel.zero_stage=3"}},
    {4, {"parallel.tensor=2", "parallel.pipeline=2", "pipeline.loops=2", "model.tie_embeddings=true"}},
    {8, {"parallel.tensor=2", "parallel.pipeline=2", "pipeline.loops=2", "parallel.zero_stage=3"}},
    {8,
     {"parallel.tensor=2", "parallel.pipeline=2", "pipeline.loops=2", "parallel.zero_stage=2",
      "parallel.sequence=false", "memory.recompute=\"selective\"", "pipeline.schedule=\"interleaved\""}},
    {2, {"parallel.tensor=2", "memory.recompute=\"computation\""}},
    {4,
     {"parallel.tensor=2", "parallel.sequence=false", "parallel.context=2", "model.architecture=\"gpt2\"",
      "model.dropout=0.1", "memory.recompute=\"computation\"", "pipeline.loops=2"}},
    {2, {"parallel.context=2"}},
    {4, {"parallel.context=2", "parallel.zero_stage=3", "pipeline.loops=4", "memory.recompute=\"full\""}},
    {4, {"parallel.context=4", "memory.recompute=\"selective\"", "precision.compute=\"bf16\""}},
    {4, {"parallel.context=2", "model.architecture=\"gpt2\"", "model.dropout=0.1", "model.kv_heads=4"}},
    {4, {"parallel.context=2", "parallel.pipeline=2", "kernels.attention=\"math\"", "memory.recompute=\"selective\""}},
    {2, {"parallel.zero_stage=1", "precision.compute=\"fp16\"", "precision.gradients=\"fp16\""}},
    {4, {"parallel.tensor=2", "parallel.zero_stage=3", "pipeline.loops=2", "precision.compute=\"fp16\""}},
};

const std::vector<RankCase> fp8_layouts{
    {2, {"precision.fp8_level=\"O0\"", "parallel.zero_stage=3", "pipeline.loops=4"}},
    {2, {"precision.fp8_level=\"O0\"", "precision.compute=\"bf16\"", "memory.recompute=\"selective\""}},
    {2, {"precision.fp8_level=\"O0\"", "parallel.tensor=2", "memory.recompute=\"full\""}},
    {4,
     {"precision.fp8_level=\"O0\"", "precision.compute=\"bf16\"", "parallel.tensor=2", "parallel.context=2",
      "memory.recompute=\"computation\""}},
    {4,
     {"precision.fp8_level=\"O0\"", "precision.compute=\"bf16\"", "parallel.tensor=2", "parallel.sequence=false",
      "parallel.pipeline=2"}},
    {4, {"precision.fp8_level=\"O0\"", "parallel.context=2", "parallel.tensor=2", "model.architecture=\"gpt2\""}},
    {1, {"precision.fp8_level=\"O1\"", "pipeline.loops=2"}},
    {2, {"precision.fp8_level=\"O1\"", "precision.compute=\"bf16\"", "memory.recompute=\"full\""}},
    {3, {"precision.fp8_level=\"O1\"", "parallel.zero_stage=1", "pipeline.loops=2", "batch.global=12"}},
    {2, {"precision.fp8_level=\"O1\"", "parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
    {4,
     {"precision.fp8_level=\"O1\"", "precision.gradients=\"bf16\"", "parallel.zero_stage=1", "parallel.pipeline=2",
      "pipeline.loops=2", "model.tie_embeddings=true"}},
    {4, {"precision.fp8_level=\"O1\"", "parallel.context=2", "parallel.overlap=false"}},
    {4, {"precision.fp8_level=\"O1\"", "parallel.zero_stage=3", "pipeline.loops=2", "precision.compute=\"bf16\""}},
    {4,
     {"precision.fp8_level=\"O1\"", "parallel.tensor=4", "model.kv_heads=2", "model.architecture=\"gpt2\"",
      "model.tie_embeddings=false"}},
    {2, {"precision.fp8_level=\"O2\"", "precision.compute=\"bf16\""}},
    {3, {"precision.fp8_level=\"O2\"", "parallel.zero_stage=1", "pipeline.loops=2", "batch.global=12"}},
    {4,
     {"precision.fp8_level=\"O2\"", "parallel.tensor=2", "parallel.zero_stage=2", "pipeline.loops=4",
      "model.architecture=\"gpt2\""}},
    {2, {"precision.fp8_level=\"O3\"", "precision.compute=\"bf16\"", "parallel.pipeline=2", "pipeline.loops=2"}},
    {3, {"precision.fp8_level=\"O3\"", "parallel.zero_stage=1", "pipeline.loops=2", "batch.global=12"}},
    {4,
     {"precision.fp8_level=\"O3\"", "parallel.tensor=2", "parallel.zero_stage=3", "pipeline.loops=4",
      "model.architecture=\"gpt2\"", "memory.recompute=\"full\""}},
    {2,
     {"precision.fp8_level=\"O1\"", "precision.compute=\"bf16\"", "precision.high_precision.first_layers=1",
      "precision.high_precision.parameters=[\"layers.2.ffn.*\"]", "parallel.zero_stage=1"}},
    {4,
     {"precision.fp8_level=\"O3\"", "precision.high_precision.last_layers=2", "parallel.tensor=2",
      "parallel.zero_stage=3", "pipeline.loops=4"}},
    {2,
     {"precision.fp8_level=\"O2\"", "precision.high_precision.parameters=[\"*.attention.key.weight\"]",
      "parallel.pipeline=2", "memory.recompute=\"selective\""}},
};

// A level at every ZeRO stage, with and without tensor and pipeline ranks. Two data ranks share the states.
std::vector<RankCase> fp8_grid(const std::string& level) {
  std::vector<RankCase> cases;
  for (const int stage : {0, 1, 2, 3})
    for (const int tensor : {1, 2})
      for (const int pipeline : {1, 2})
        cases.push_back(
            {2 * tensor * pipeline,
             {"precision.fp8_level=\"" + level + "\"", zero(stage), "pipeline.loops=2",
              "parallel.tensor=" + std::to_string(tensor), "parallel.pipeline=" + std::to_string(pipeline)}});
  return cases;
}

// Gradients that are kept for a whole step, although the schedule reduces others before, and delayed scales.
const std::vector<RankCase> late_fp8_layouts{
    {2, {"precision.fp8_level=\"O1\"", "parallel.zero_stage=2", "pipeline.loops=4", "pipeline.schedule=\"1f1b\""}},
    {4,
     {"precision.fp8_level=\"O3\"", "parallel.zero_stage=3", "parallel.pipeline=2", "pipeline.loops=2",
      "pipeline.schedule=\"interleaved\""}},
    {4,
     {"precision.fp8_level=\"O0\"", "precision.fp8_scaling.method=\"delayed\"", "parallel.context=2",
      "parallel.tensor=2"}},
    {4,
     {"precision.fp8_level=\"O3\"", "precision.fp8_scaling.method=\"delayed\"", "parallel.pipeline=2",
      "parallel.tensor=2"}},
    {2,
     {"precision.fp8_level=\"O0\"", "precision.fp8_scaling.method=\"delayed\"", "parallel.tensor=2",
      "precision.high_precision.last_layers=1"}},
    {2, {"precision.fp8_level=\"O2\"", "precision.high_precision.fallback_steps=4", "parallel.zero_stage=1"}},
};

// Bytes per element of the layers' matrices, by the plan and by what LibTorch reports of their memory.
struct MatrixBytes {
  double planned = 0, reported = 0;
};

MatrixBytes matrix_bytes(const Plan& plan) {
  const auto& groups = plan.layout->partition().groups.front();
  const StateGroup& group = *std::ranges::find_if(groups, &StateGroup::is_fp8);
  const auto elements = static_cast<double>(group.elements());
  const StateTypes& types = group.types;
  MatrixBytes bytes{types.weight_bytes() + types.gradient_bytes() + types.master_bytes() + types.moment_bytes(), 0};
  LocalWorld(1).run([&](Communicator& communicator) {
    const RankGroups ranks(communicator, *plan.layout);
    ParameterStore store(plan.layout->graph(), group.parameters, ranks.shard_place());
    const MemoryWatch watch;
    const ShardedParameters parameters(plan.layout->graph(), store, group, {}, ranks);
    bytes.reported = static_cast<double>(watch.memory().now()) / elements;
  });
  return bytes;
}

}  // namespace

TEST_CASE("a step executes the schedule, sends the planned bytes, and needs the planned memory") {
  const TrainingSetting setting;
  for (const RankCase& layout : layouts) check_layout(setting, layout);
}

TEST_CASE("so does a step whose layers recompute differently") {
  const TrainingSetting setting;
  check_layout(setting, {2, {R"(memory.recompute={"full":[0,1]})", "batch.micro=2"}});
  check_layout(
      setting,
      {2, {"parallel.pipeline=2", "pipeline.loops=2", R"(memory.recompute={"full":["0-1"],"selective":[3]})"}});
  check_layout(setting, {4,
                         {"parallel.tensor=2", "parallel.zero_stage=3", "pipeline.loops=2",
                          R"(memory.recompute={"computation":[0,3],"full":[1]})"}});
}

TEST_CASE("so does a step of stages with different numbers of layers") {
  const TrainingSetting setting;
  check_layout(setting, {2, {"parallel.pipeline=2", "model.layers=5", "pipeline.schedule=\"1f1b\""}});
  check_layout(setting, {4, {"parallel.pipeline=2", "model.layers=7", "pipeline.loops=2", "parallel.zero_stage=3"}});
}

TEST_CASE("so does a step whose attention stays within documents") {
  const TrainingSetting setting;
  const std::string mask = R"(data.document_mask={"end_of_text": 10})";
  check_layout(setting, {2, {mask, "parallel.context=2"}});
  check_layout(setting, {2, {mask, "parallel.pipeline=2", "parallel.zero_stage=1", "pipeline.loops=2"}});
}

TEST_CASE("so does a step with FP8") {
  const TrainingSetting setting;
  for (const RankCase& layout : fp8_layouts) check_layout(setting, layout);
  for (const RankCase& layout : late_fp8_layouts) check_layout(setting, layout);
  for (const std::string level : {"O1", "O2", "O3"})
    for (const RankCase& layout : fp8_grid(level)) check_layout(setting, layout);
}

TEST_CASE("FP8 levels store the planned bytes of a matrix's element") {
  const TrainingSetting setting;
  for (const auto& [level, expected] : {std::pair{"O1", 11.0}, {"O2", 6.0}, {"O3", 7.0}}) {
    const RankCase alone{1, {std::string("precision.fp8_level=\"") + level + "\""}};
    const MatrixBytes bytes = matrix_bytes(plan_of(recipe_of(setting, alone)));
    CHECK(bytes.planned == expected);
    CHECK(bytes.reported == Approx(expected).epsilon(1e-3));
  }
}

TEST_CASE("so does a step of a model with experts") {
  const TrainingSetting setting;
  for (const RankCase& layout : expert_layouts) check_layout(setting, layout);
  for (const RankCase& layout : sliced_expert_layouts) check_layout(setting, layout);
  for (const RankCase& layout : folded_expert_layouts) check_layout(setting, layout);
  for (const RankCase& layout : router_layouts) check_layout(setting, layout);
  for (const RankCase& layout : joined_expert_layouts) check_layout(setting, layout);
  for (const RankCase& layout : recomputing_expert_layouts) check_layout(setting, layout);
}

}  // namespace llmtrain::test
