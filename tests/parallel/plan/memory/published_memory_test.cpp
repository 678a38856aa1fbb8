// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "core/graph/operators/operators.h"
#include "parallel/plan/memory/memory_model.h"
#include "tests/parallel/plan/memory/memory_case.h"

namespace llmtrain::test {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;
constexpr double gb = 1e9;

// Korthikanti et al., arXiv 2205.05198, figure 1: one stage of layers, without embedding and head.
MemoryCase korthikanti(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t micro,
                       std::int64_t pipeline, std::int64_t loops) {
  MemoryCase result = gpt_case(layers, hidden, heads, 51200, 2048);
  result.recipe.model.dropout = 0.1;
  result.recipe.batch.micro = micro;
  result.recipe.precision.compute = DataType::fp16;
  result.recipe.pipeline.loops = loops;
  result.mesh = {.tensor = 8, .pipeline = pipeline, .devices_per_node = 8};
  result.recipe.parallel.tensor = 8;
  return result;
}

// Only of a rank's layers.
double states_of(const MemoryCase& value, std::int64_t layers) {
  Partition partition = value.partition();
  std::vector<Stage> stages(1);
  for (std::int64_t layer = 0; layer < layers; ++layer) stages[0].blocks.push_back(static_cast<std::size_t>(layer + 1));
  partition.groups.front() = state_groups(partition.recipe, *partition.graph, partition.mesh, stages).front();
  return model_states(partition, 0).resident.total();
}

// `layers`: how many layers' activations a rank holds at once, of all micro-batches.
double activations_of(const MemoryCase& value, double layers) {
  PassSetting setting;
  setting.program.kept_tensors = KeptTensors::megatron;
  setting.tokens.batch = value.recipe.batch.micro;
  setting.tokens.sequence_length = 2048;
  setting.shards.tensor = 8;
  setting.tokens.row_ranks = value.recipe.parallel.sequence ? 8 : 1;
  setting.numbers.compute = DataType::fp16;
  setting.program.attention = AttentionKernel::math;
  setting.recompute = value.recipe.memory.recompute;
  return layers * saved_bytes(block_operators(value.graph(), 1, setting), setting.recompute);
}

TEST_CASE("model states of the activation recompute paper's models") {
  CHECK(states_of(korthikanti(48, 6144, 64, 4, 1, 1), 48) == Approx(45.56 * gib).epsilon(0.01));
  CHECK(states_of(korthikanti(105, 20480, 128, 1, 35, 3), 3) == Approx(31.64 * gib).epsilon(0.01));
}

TEST_CASE("activations of the activation recompute paper's models") {
  MemoryCase small = korthikanti(48, 6144, 64, 4, 1, 1), large = korthikanti(105, 20480, 128, 1, 35, 3);
  const double interleaved = 105 * (1 + 34.0 / (35 * 3));
  CHECK(activations_of(small, 48) == Approx(59.25 * gib).epsilon(0.01));
  CHECK(activations_of(large, interleaved) == Approx(114.02 * gib).epsilon(0.01));
  small.recipe.parallel.sequence = large.recipe.parallel.sequence = true;
  small.recipe.memory.recompute = large.recipe.memory.recompute = Recompute::selective;
  CHECK(activations_of(small, 48) == Approx(9.56 * gib).epsilon(0.01));
  CHECK(activations_of(large, interleaved) == Approx(23.08 * gib).epsilon(0.01));
}

// Peng et al., arXiv 2310.18313, table 5.
MemoryCase fp8_lm(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  MemoryCase result = gpt_case(layers, hidden, heads, 50304, 2048);
  ModelRecipe& model = result.recipe.model;
  model.architecture = Architecture::gpt_rope;
  model.position = Position::rope;
  model.tie_embeddings = false;
  result.recipe.parallel.zero_stage = 1;
  result.mesh.devices_per_node = 8;
  return result;
}

MemoryCase fp8_lm_7b(std::int64_t micro, Fp8Level level) {
  MemoryCase result = fp8_lm(32, 4096, 32);
  result.recipe.batch = {.global = 2048, .micro = micro, .sequence_length = 2048};
  result.recipe.precision.fp8_level = level;
  result.mesh.data = result.mesh.zero_shard = 32;
  return result;
}

MemoryCase fp8_lm_175b() {
  MemoryCase result = fp8_lm(96, 12288, 96);
  result.recipe.batch = {.global = 512, .micro = 1, .sequence_length = 2048};
  result.recipe.parallel.tensor = 8;
  result.recipe.parallel.sequence = true;
  result.mesh.tensor = result.mesh.expert_tensor = 8;
  result.mesh.pipeline = 4;
  result.mesh.data = result.mesh.zero_shard = 4;
  return result;
}

TEST_CASE("peak memory of the FP8-LM paper") {
  CHECK(peak_bytes(fp8_lm_7b(2, Fp8Level::off)) == Approx(69.6 * gb).epsilon(0.06));
  CHECK(peak_bytes(fp8_lm_175b()) == Approx(66.1 * gb).epsilon(0.06));
  CHECK(peak_bytes(fp8_lm_7b(2, Fp8Level::o3)) == Approx(49.4 * gb).epsilon(0.1));
  CHECK(peak_bytes(fp8_lm_7b(4, Fp8Level::o3)) == Approx(69.3 * gb).epsilon(0.1));
}

// Qi et al., arXiv 2401.10241, table 4. Their script trains in fp16 with Megatron's defaults, which are 16-bit
// gradients and dropout of 0.1, on untied embeddings (sail-sg/zero-bubble-pipeline-parallelism,
// examples/pretrain_zero_bubble.sh).
MemoryCase zero_bubble(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t micro,
                       std::int64_t pipeline) {
  MemoryCase result = gpt_case(layers, hidden, heads, 51200, 1024);
  result.recipe.model.dropout = 0.1;
  result.recipe.model.tie_embeddings = false;
  result.recipe.batch = {.global = 3 * pipeline * micro, .micro = micro, .sequence_length = 1024};
  result.recipe.precision.compute = result.recipe.precision.gradients = DataType::fp16;
  result.recipe.pipeline.balance.kind = BalanceKind::blocks;
  result.mesh = {.pipeline = pipeline, .devices_per_node = 8};
  return result;
}

TEST_CASE("peak memory of the Zero Bubble paper's baselines") {
  MemoryCase small = zero_bubble(22, 2304, 24, 6, 8), large = zero_bubble(46, 5120, 40, 1, 16);
  CHECK(peak_bytes(small) == Approx(30 * gb).epsilon(0.06));
  CHECK(peak_bytes(large) == Approx(32 * gb).epsilon(0.06));
  small.recipe.pipeline.loops = large.recipe.pipeline.loops = 3;
  CHECK(peak_bytes(small) == Approx(40 * gb).epsilon(0.06));
  CHECK(peak_bytes(large) == Approx(39 * gb).epsilon(0.06));
}

}  // namespace
}  // namespace llmtrain::test
