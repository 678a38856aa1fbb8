// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "parallel/plan/memory/memory_model.h"
#include "tests/parallel/plan/memory/memory_case.h"

namespace llmtrain::test {
namespace {

using Category = MemoryCategory;

// ZeRO's table 1 (arXiv 1910.02054): GB of model states per device for 7.5B, 128B and 1T parameters, 16-bit gradients.
struct ZeroRow {
  std::int64_t ranks;
  double gigabytes[3][3];  // [model][stage 1, 2, 3]
};
const std::vector<ZeroRow> zero_table = {
    {1, {{120, 120, 120}, {2048, 2048, 2048}, {16000, 16000, 16000}}},
    {4, {{52.5, 41.3, 30}, {896, 704, 512}, {7000, 5500, 4000}}},
    {16, {{35.6, 21.6, 7.5}, {608, 368, 128}, {4750, 2875, 1000}}},
    {64, {{31.4, 16.6, 1.88}, {536, 284, 32}, {4187, 2218, 250}}},
    {256, {{30.4, 15.4, 0.47}, {518, 263, 8}, {4046, 2054, 62.5}}},
    {1024, {{30.1, 15.1, 0.12}, {513, 257, 2}, {4011, 2013, 15.6}}},
};

// A model of one layer whose parameter count is divisible by 1024, so that no shard is rounded.
MemoryCase zero_case(std::int64_t stage, std::int64_t ranks) {
  MemoryCase result = gpt_case(2, 1024, 16, 1024, 1024);
  result.recipe.model.set_biases(false);
  result.recipe.precision.gradients = DataType::bf16;
  result.recipe.parallel.zero_stage = stage;
  result.mesh.data = result.mesh.zero_shard = result.recipe.batch.global = ranks;
  return result;
}

double states_of_stage(const MemoryCase& value, std::size_t stage = 0) {
  return model_states(value.partition(), stage).resident.total();
}

double gathered_weights(const StageMemory& stage) {
  return stage.held(MemoryEvent::weights_are_gathered, MemoryEvent::weights_are_freed);
}

// The paper rounds some of its numbers and truncates others.
bool prints_as(double value, double printed) {
  const double unit = printed == std::floor(printed) && printed >= 1 ? 1
                      : printed * 10 == std::floor(printed * 10)     ? 0.1
                                                                     : 0.01;
  return value > printed - unit / 2 - 1e-9 && value < printed + unit + 1e-9;
}

TEST_CASE("ZeRO's table 1, all 54 numbers") {
  const double parameters[3] = {7.5, 128, 1000};  // 10⁹
  const auto whole = static_cast<double>(zero_case(1, 1).graph().parameter_count());
  for (const ZeroRow& row : zero_table)
    for (std::size_t stage = 0; stage < 3; ++stage) {
      const double bytes = states_of_stage(zero_case(static_cast<std::int64_t>(stage) + 1, row.ranks)) / whole;
      for (std::size_t model = 0; model < 3; ++model) {
        INFO(row.ranks << " ranks, stage " << stage + 1 << ": " << bytes * parameters[model]);
        CHECK(prints_as(bytes * parameters[model], row.gigabytes[model][stage]));
      }
    }
}

TEST_CASE("bytes per parameter by precision") {
  const auto total_bytes = [](const StateTypes& types) {
    return types.weight_bytes() + types.gradient_bytes() + types.master_bytes() + types.moment_bytes();
  };
  PrecisionRecipe precision;
  CHECK(total_bytes(state_types(precision)) == 16);  // fp32: 4 + 4 + 8, no master copy
  precision.compute = DataType::bf16;
  CHECK(total_bytes(state_types(precision)) == 18);
  precision.gradients = DataType::bf16;
  CHECK(total_bytes(state_types(precision)) == 16);
  // Without the compute copy of the weights: 16 bytes become 6 (FP8-LM, table 6).
  const auto fp8 = [&](Fp8Level level) {
    precision.fp8_level = level;
    return fp8_state_types(precision);
  };
  CHECK(total_bytes(fp8(Fp8Level::o3)) - fp8(Fp8Level::o3).weight_bytes() == 6);
  CHECK(total_bytes(fp8(Fp8Level::o2)) == 6);
  CHECK(total_bytes(fp8(Fp8Level::o1)) == 11);
}

TEST_CASE("FP8 applies to the layers' matrices and leaves the rest in 16 bits") {
  MemoryCase value = gpt_case(2, 64, 4, 96, 32);
  value.recipe.precision.fp8_level = Fp8Level::o3;
  const double matrices = 2.0 * 12 * 64 * 64;
  const double rest = static_cast<double>(value.graph().parameter_count()) - matrices;
  const StageMemory states = model_states(value.partition(), 0);
  CHECK(states.resident[Category::weights] == matrices + 2 * rest);
  CHECK(states.resident[Category::gradients] == matrices + 4 * rest);
  CHECK(states.resident[Category::master_weights] == 2 * matrices + 4 * rest);
  CHECK(states.resident[Category::optimizer] == 3 * matrices + 8 * rest);
  // Other programs reduce a copy of FP8 gradients.
  CHECK(value.memory().stages[0].resident[Category::communication] == 0);
  value.mesh.data = value.recipe.batch.global = 2;
  CHECK(value.memory().stages[0].resident[Category::communication] == matrices);
}

TEST_CASE("O2 keeps 6 bytes of a matrix's element, and ranks hold equal shards of it") {
  MemoryCase value = gpt_case(1, 64, 4, 96, 32);
  value.recipe.precision.fp8_level = Fp8Level::o2;
  const double matrices = 12.0 * 64 * 64;
  const double rest = static_cast<double>(value.graph().parameter_count()) - matrices;
  const auto resident = [&](Category category) { return model_states(value.partition(), 0).resident[category]; };
  CHECK(resident(Category::weights) + resident(Category::gradients) + resident(Category::master_weights) +
            resident(Category::optimizer) ==
        6 * matrices + 18 * rest);
  value.recipe.parallel.zero_stage = 1;
  // No number of whole matrices is a seventh of them.
  for (const std::int64_t ranks : {2, 4, 7}) {
    value.mesh.data = value.mesh.zero_shard = ranks;
    const auto share = [&](double elements) { return std::ceil(elements / static_cast<double>(ranks)); };
    CHECK(resident(Category::optimizer) == 3 * share(matrices) + 8 * share(rest));
  }
}

TEST_CASE("sharding inside a part of the data-parallel ranks") {
  MemoryCase value = zero_case(3, 64);
  const double everywhere = states_of_stage(value);
  value.mesh.zero_shard = 16;
  CHECK(states_of_stage(value) == 4 * everywhere);
  value.mesh.context = 4;  // context ranks hold the same parameters and share their shards
  CHECK(states_of_stage(value) == everywhere);
}

TEST_CASE("ZeRO-2 and ZeRO-3 list the full tensors that are temporary") {
  const auto states = [](std::int64_t stage, std::int64_t ranks = 4) {
    return zero_case(stage, ranks).memory().stages.front();
  };
  const auto unreduced = [&](std::int64_t stage) {
    return states(stage).held(MemoryEvent::gradients_begin, MemoryEvent::gradients_are_reduced);
  };
  const auto partial = [&](std::int64_t stage) {
    return states(stage).held(MemoryEvent::later_reduction_starts, MemoryEvent::later_gradients_are_reduced);
  };
  const auto whole = static_cast<double>(zero_case(0, 4).graph().parameter_count());
  CHECK(unreduced(1) == 0);
  CHECK(unreduced(2) == 2 * whole);
  CHECK(partial(1) == 0);
  CHECK(partial(2) == Approx(states(2).resident[MemoryCategory::gradients]));
  CHECK(gathered_weights(states(2)) == 0);
  CHECK(gathered_weights(states(3)) == 2 * whole);
  CHECK(gathered_weights(states(3, 1)) == 0);
}

TEST_CASE("tied embeddings: the last stage of a pipeline holds a copy") {
  MemoryCase value = gpt_case(4, 64, 4, 96, 32);
  value.mesh.pipeline = 2;
  const double tied = states_of_stage(value, 1), first = states_of_stage(value, 0);
  value.recipe.model.tie_embeddings = false;
  CHECK(states_of_stage(value, 1) == tied);
  CHECK(states_of_stage(value, 0) == first);
  // On one rank there is only one.
  value.mesh.pipeline = 1;
  value.recipe.pipeline.loops = 2;
  const double untied = states_of_stage(value, 1);
  value.recipe.model.tie_embeddings = true;
  CHECK(states_of_stage(value, 1) == untied - 18.0 * 96 * 64);
}

TEST_CASE("a tied head gathers the embedding's weight") {
  MemoryCase value = zero_case(3, 4);
  value.recipe.pipeline.loops = 2;
  const auto gathered = [&] { return gathered_weights(model_states(value.partition(), 1)); };
  const double tied = gathered();
  value.recipe.model.tie_embeddings = false;
  CHECK(gathered() == tied);
}

TEST_CASE("the states of all stages sum to those of the model, however uneven the stages") {
  for (const std::vector<std::int64_t>& layers : {std::vector<std::int64_t>{1, 3}, {2, 2}, {4, 0}}) {
    MemoryCase value = gpt_case(4, 64, 4, 96, 32);
    value.recipe.model.tie_embeddings = false;
    value.mesh.pipeline = 2;
    value.recipe.pipeline.balance = {BalanceKind::list, layers};
    CHECK(states_of_stage(value, 0) + states_of_stage(value, 1) ==
          18.0 * static_cast<double>(value.graph().parameter_count()));
  }
}

TEST_CASE("a mixture's states per rank match DeepSpeed-TED's layout") {
  // Singh et al., arXiv 2303.06318, ZeRO-1: N_ne/G_t·(4 + 12/G_d) + N_e/(G_t·E)·(4 + 12·E/G_d).
  MemoryCase value = gpt_case(4, 64, 4, 96, 32);
  value.recipe.model.set_biases(false);
  value.recipe.model.tie_embeddings = false;
  value.recipe.model.position = Position::rope;
  value.recipe.model.moe = MixtureOfExpertsRecipe{.experts = 8, .ffn_hidden_size = 256};
  value.recipe.precision.gradients = DataType::bf16;
  value.recipe.parallel.zero_stage = 1;
  value.mesh.tensor = value.mesh.expert_tensor = 2;
  value.mesh.data = value.mesh.zero_shard = 16;
  value.mesh.expert = 8;
  const double layers = 4, h = 64;
  const double experts = layers * 8 * 2 * h * 256, replicated = layers * (2 * h + 8 * h) + h;
  const double split = layers * 4 * h * h + 2 * 96 * h;
  const double expected = (split / 2 + replicated) * (4 + 12.0 / 16) + experts / (2 * 8) * (4 + 12.0 / 2);
  CHECK(states_of_stage(value) == Approx(expected).epsilon(1e-5));
}

}  // namespace
}  // namespace llmtrain::test
