// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

PassSetting hybrid_setting(std::int64_t sequence, std::int64_t tensor = 1) {
  PassSetting setting;
  setting.program.kept_tensors = KeptTensors::megatron;
  setting.program.attention = AttentionKernel::flash;
  setting.tokens.sequence_length = sequence;
  setting.numbers.compute = DataType::bf16;
  setting.shards.tensor = tensor;
  return setting;
}

OperatorList half_of(const ModelRecipe& model, std::size_t layer, LayerHalf half, const PassSetting& setting) {
  OperatorList operators = test::operators_of(Graph::build(model), layer + 1, setting);
  std::erase_if(operators, [&](const Operator& item) { return item.half != half; });
  return operators;
}

double flops_of_mixer(const ModelRecipe& model, std::size_t layer, std::int64_t sequence) {
  return forward_flops(half_of(model, layer, LayerHalf::attention, hybrid_setting(sequence)));
}

// Bytes per token of bf16 activations.
double kept_by(const ModelRecipe& model, std::size_t layer, LayerHalf half, std::int64_t tensor = 1) {
  return saved_bytes(half_of(model, layer, half, hybrid_setting(256, tensor)), Recompute::none) / 256;
}

Operator found(const OperatorList& operators, const std::string& name) {
  const auto item = std::ranges::find(operators, name, &Operator::name);
  REQUIRE(item != operators.end());
  return *item;
}

// As Qwen3NextForCausalLM and NemotronHForCausalLM of transformers count them, on the meta device.
TEST_CASE("parameter counts of models with linear attention") {
  const Graph qwen = Graph::build(test::qwen3_next_80b()), nemotron = Graph::build(test::nemotron_h_8b());
  CHECK(qwen.parameter_count() == 79'674'391'296);
  CHECK(qwen.active_parameter_count() == 79'674'391'296 - 48LL * 502 * 3 * 2048 * 512);
  CHECK(nemotron.parameter_count() == 8'100'852'736);
}

TEST_CASE("layer kinds repeat over the layers, and name their halves") {
  const auto kinds = [](const ModelRecipe& model) {
    std::string text;
    for (const Block& block : Graph::build(model).blocks) {
      if (block.layer() == nullptr) continue;
      const LayerSettings& layer = *block.layer();
      text += !layer.has_mixer ? '-' : layer.linear_attention ? 'M' : '*';
      if (layer.has_mixer && layer.has_feed_forward) text += '-';
    }
    return text;
  };
  CHECK(kinds(test::nemotron_h_8b()) == "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-");
  ModelRecipe model = test::qwen3_next_80b();
  model.layers = 6;
  CHECK(kinds(model) == "M-M-M-*-M-M-");
  model.multi_token_prediction.emplace();
  CHECK(kinds(model) == "M-M-M-*-M-M-*-");
  model.layer_kinds.clear();
  model.multi_token_prediction.reset();
  CHECK(kinds(model) == "*-*-*-*-*-*-");
}

// Experts are where there is a feed-forward network.
TEST_CASE("layers without a feed-forward network have no experts") {
  ModelRecipe model = test::nemotron_h_8b();
  model.moe = MixtureOfExpertsRecipe{.experts = 8, .ffn_hidden_size = 96};
  const Graph graph = Graph::build(model);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const bool is_network = model.layer_kinds[static_cast<std::size_t>(layer)] == "feed_forward_alone";
    CHECK(has_experts(model, layer) == is_network);
    CHECK((graph.blocks[static_cast<std::size_t>(layer) + 1].experts() != nullptr) == is_network);
  }
}

// Projections, the convolution, and of each state as many products of its size as the recurrence has: read for the key,
// written, and read for the query; Mamba-2 does not read it for the key.
TEST_CASE("linear attention multiplies what its projections and states say, in time of the length") {
  const double s = 4096;
  const double delta = 2.0 * 2048 * (12288 + 64) + 2.0 * 4 * 8192 + 6.0 * 32 * 128 * 128 + 2.0 * 4096 * 2048;
  CHECK(flops_of_mixer(test::qwen3_next_80b(), 0, 4096) == s * delta);
  CHECK(flops_of_mixer(test::qwen3_next_80b(), 0, 8192) == 2 * s * delta);
  const double mamba = 2.0 * 4096 * 18560 + 2.0 * 4 * 10240 + 4.0 * 128 * 128 * 64 + 2.0 * 8192 * 4096;
  CHECK(flops_of_mixer(test::nemotron_h_8b(), 0, 4096) == s * mamba);
}

TEST_CASE("a gate of attention is a projection more, of which queries rotate a part") {
  ModelRecipe model = test::qwen3_next_80b();
  const OperatorList operators = half_of(model, 3, LayerHalf::attention, hybrid_setting(256));
  CHECK(found(operators, "attention.query_key_value").product.columns == 2 * 4096 + 2 * 512);
  CHECK(found(operators, "attention.rotation").forward.elements == 2 * 256 * 18 * 64.0);
  const double gated = kept_by(model, 3, LayerHalf::attention);
  model.attention_gate = false;
  // The gate, and what it multiplies.
  CHECK(gated - kept_by(model, 3, LayerHalf::attention) == 2 * 2 * 4096);
  model.rotary_dim.reset();
  CHECK(found(half_of(model, 3, LayerHalf::attention, hybrid_setting(256)), "attention.rotation").forward.elements ==
        2 * 256 * 18 * 256.0);
}

// Two bytes per number: input and its norm, projections, of the delta rule what is convolved and 64 numbers of each
// head's inverse, what heads make before and after the norm; in fp32 decays, and statistics of norms.
TEST_CASE("linear attention keeps what its backward reads, split with the heads") {
  const double h = 2048, projected = 12288, convolved = 8192, made = 4096, heads = 32;
  const auto delta = [&](double ranks) {
    return 2 * 2 * h + (2 * (projected + convolved + 2 * made + heads * 64) + heads * (4 + 2) + heads * 4) / ranks;
  };
  CHECK(kept_by(test::qwen3_next_80b(), 0, LayerHalf::attention) == delta(1));
  CHECK(kept_by(test::qwen3_next_80b(), 0, LayerHalf::attention, 8) == delta(8));
  const double mamba = 2 * 2 * 4096 + 2 * (18432 + 2 * 8192) + 128 * (4 + 2) + 8 * 4;
  CHECK(kept_by(test::nemotron_h_8b(), 0, LayerHalf::attention) == mamba);
}

// What a layer of one half keeps is its input, which full recompute keeps as well.
TEST_CASE("layers of one half keep their input") {
  const ModelRecipe model = test::nemotron_h_8b();
  const Graph graph = Graph::build(model);
  for (const std::size_t block : {std::size_t{1}, std::size_t{2}, std::size_t{8}}) {
    CAPTURE(block);
    PassSetting setting = hybrid_setting(256);
    setting.recompute = Recompute::full;
    const OperatorList operators = test::operators_of(graph, block, setting);
    CHECK(saved_bytes(operators, Recompute::full) == 256 * 2 * 4096);
    CHECK(kept_input_bytes(operators, Recompute::full, 0) == 256 * 2 * 4096);
  }
  CHECK(half_of(model, 0, LayerHalf::feed_forward, hybrid_setting(256)).empty());
  CHECK(half_of(model, 1, LayerHalf::attention, hybrid_setting(256)).empty());
  // Input, its norm, and the activation's input and result.
  CHECK(kept_by(model, 1, LayerHalf::feed_forward) == 2 * (2 * 4096 + 2 * 21504));
}

// Mamba-2's four products of a chunk (Dao and Gu, section 6): scores, their outputs, states and outputs of states.
TEST_CASE("chunks multiply their tokens with each other and with states") {
  const OperatorList mamba = half_of(test::nemotron_h_8b(), 0, LayerHalf::attention, hybrid_setting(512));
  const double batch = 512.0 / 128 * 128;
  CHECK(found(mamba, "attention.chunk_scores").product.flops() == 2 * batch * 128 * 128 * 128);
  CHECK(found(mamba, "attention.chunk_values").product.flops() == 2 * batch * 128 * 64 * 128);
  CHECK(found(mamba, "attention.states").product.flops() == 2 * 2 * batch * 128 * 64 * 128);
  const OperatorList delta = half_of(test::qwen3_next_80b(), 0, LayerHalf::attention, hybrid_setting(512));
  const double chunks = 512.0 / 64 * 32;
  double inside = 0;
  for (const char* name : {"attention.chunk_scores", "attention.chunk_keys", "attention.chunk_values"})
    inside += found(delta, name).product.flops();
  CHECK(inside == 2 * chunks * 64 * 64 * 5 * 128);
  CHECK(found(delta, "attention.states").product.flops() == 3 * 2 * chunks * 64 * 128 * 128);
  // A sequence that is shorter than a chunk is one.
  const OperatorList brief = half_of(test::qwen3_next_80b(), 0, LayerHalf::attention, hybrid_setting(32));
  CHECK(found(brief, "attention.chunk_scores").product.flops() == 2 * 2 * 32.0 * 32 * 32 * 128);
}

TEST_CASE("tensor ranks split key heads with their value heads, and exchange what attention's do") {
  const Graph graph = Graph::build(test::qwen3_next_80b());
  const ShardDegrees degrees{.tensor = 8};
  const auto local = [&](const char* name) { return local_elements(graph.parameter(1, name), degrees); };
  CHECK(local("attention.projection.weight") == 12288 / 8 * 2048);
  CHECK(local("attention.gates.weight") == 64 / 8 * 2048);
  CHECK(local("attention.convolution.weight") == 8192 / 8 * 4);
  CHECK(local("attention.log_decay") == 4);
  CHECK(local("attention.norm.weight") == 128);
  CHECK(local("attention.output.weight") == 2048 * 4096 / 8);
  const auto sent = [&](std::size_t layer) {
    double bytes = 0;
    for (const Operator& item : half_of(test::qwen3_next_80b(), layer, LayerHalf::attention, hybrid_setting(64, 8)))
      for (const Exchange& exchange : item.exchanges) bytes += exchange.bytes;
    return bytes;
  };
  CHECK(sent(0) == sent(3));
}

}  // namespace
}  // namespace llmtrain
