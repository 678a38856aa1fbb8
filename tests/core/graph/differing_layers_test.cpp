// SPDX-License-Identifier: Apache-2.0
// Layers of one graph that differ count as those of models that have only such layers.
#include "tests/core/graph/differing_layers.h"

#include <catch2/catch.hpp>
#include <tuple>
#include <vector>

#include "core/graph/rope_frequencies.h"
#include "tests/core/graph/models.h"

namespace llmtrain::test {
namespace {

std::vector<PassSetting> settings() {
  std::vector<PassSetting> settings;
  for (const KeptTensors kept : {KeptTensors::core_model, KeptTensors::megatron})
    for (const ComputeDevice device : {ComputeDevice::cpu, ComputeDevice::cuda})
      for (const std::int64_t tensor : {1, 4})
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
          settings.push_back({.program = {.kept_tensors = kept, .device = device},
                              .tokens = {.batch = 2, .sequence_length = 64, .row_ranks = tensor},
                              .shards = {.tensor = tensor, .expert_tensor = tensor},
                              .numbers = {.compute = DataType::bf16},
                              .recompute = recompute});
  return settings;
}

// All that is counted of a block.
auto counted(const Graph& graph, std::size_t block, const PassSetting& setting) {
  const OperatorList operators = operators_of(graph, block, setting);
  double exchanged = 0;
  for (const Operator& item : operators)
    for (const Exchange& exchange : item.exchanges) exchanged += exchange.bytes;
  const PassPeak peak = pass_peak(graph, block, setting);
  return std::tuple(operators.size(), forward_flops(operators), backward_flops(operators),
                    repeated_flops(operators, setting.recompute), saved_bytes(graph, block, setting), peak.forward,
                    peak.backward, exchanged);
}

ModelRecipe with_experts(ModelRecipe model, std::int64_t experts, std::int64_t top_k, std::int64_t shared) {
  model.moe = MixtureOfExpertsRecipe{
      .experts = experts, .top_k = top_k, .ffn_hidden_size = 64, .shared_experts = shared, .z_coefficient = 0.1};
  return model;
}

}  // namespace

TEST_CASE("a layer's operators are those of its own settings") {
  const ModelRecipe plain = gpt2_model(4, 64, 4);
  ModelRecipe gated = llama2_7b();
  gated.layers = 4;
  gated.hidden_size = 64;
  gated.heads = 8;
  gated.kv_heads = 2;
  gated.head_dim = 10;
  gated.ffn_hidden_size = 96;
  gated.qk_norm = true;
  ModelRecipe dropping = plain;
  dropping.dropout = 0.1;
  const std::map<std::int64_t, Graph> others{
      {1, Graph::build(gated)}, {2, Graph::build(dropping)}, {3, Graph::build(with_experts(gated, 8, 4, 1))}};
  const Graph whole = Graph::build(with_experts(plain, 4, 1, 0)), graph = with_layers(whole, others);
  for (const PassSetting& setting : settings()) {
    for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
      const bool differs = block >= 2 && block <= 4;
      const Graph& from = differs ? others.at(static_cast<std::int64_t>(block) - 1) : whole;
      CHECK(counted(graph, block, setting) == counted(from, block, setting));
    }
    CHECK(counted(graph, 1, setting) != counted(graph, 4, setting));
    CHECK(counted(graph, 2, setting) != counted(graph, 3, setting));
  }
  // A token uses one of the first layer's four experts, and four of the last one's eight.
  const auto active = [](const Graph& of, std::size_t block) {
    std::int64_t elements = 0;
    for (const std::size_t index : of.blocks[block].parameters) {
      const Parameter& parameter = of.parameters[index];
      elements += parameter.has_expert_axis ? parameter.elements() / (block == 1 ? 4 : 2) : parameter.elements();
    }
    return elements;
  };
  std::int64_t expected = 0;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) expected += active(graph, block);
  CHECK(graph.active_parameter_count() == expected);
}

TEST_CASE("each kind of rotation of a graph is listed once") {
  ModelRecipe model = llama3_8b(), other = model;
  other.rope_theta = 7;
  const Graph whole = Graph::build(model);
  CHECK(rope_settings(whole) == std::vector<RopeSettings>{*whole.blocks[1].layer()->attention.rope});
  const Graph graph = with_layers(whole, {{3, Graph::build(other)}, {5, Graph::build(other)}});
  const std::vector<RopeSettings> found = rope_settings(graph);
  REQUIRE(found.size() == 2);
  CHECK(found[0].theta == 10000);
  CHECK(found[1].theta == 7);
  CHECK(rope_settings(Graph::build(gpt2_model(2, 64, 4))).empty());
}

}  // namespace llmtrain::test
