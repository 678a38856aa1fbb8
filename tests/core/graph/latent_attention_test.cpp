// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

PassSetting megatron_setting(std::int64_t sequence) {
  PassSetting setting;
  setting.program.kept_tensors = KeptTensors::megatron;
  setting.program.attention = AttentionKernel::flash;
  setting.tokens.sequence_length = sequence;
  setting.numbers.compute = DataType::bf16;
  return setting;
}

double attention_flops(const OperatorList& operators) {
  double flops = 0;
  for (const Operator& item : operators)
    if (item.half == LayerHalf::attention) flops += item.flops;
  return flops;
}

double attention_saved(const OperatorList& operators) {
  double bytes = 0;
  for (const Operator& item : operators)
    for (const SavedTensor& tensor : item.saved)
      if (item.half == LayerHalf::attention) bytes += tensor.bytes;
  return bytes;
}

// As DeepseekV3ForCausalLM and DeepseekV2ForCausalLM of transformers count them, on the meta device.
TEST_CASE("parameter counts of models with latent attention") {
  const Graph v3 = Graph::build(test::deepseek_v3());
  CHECK(v3.parameter_count() == 671'026'404'352);
  // 58 layers leave out 248 of 256 experts.
  CHECK(v3.active_parameter_count() == 671'026'404'352 - 58LL * 248 * 3 * 7168 * 2048);
  CHECK(Graph::build(test::deepseek_v2_lite()).parameter_count() == 15'706'484'224);
}

TEST_CASE("latent attention multiplies what its projections and heads say") {
  const double s = 4096, h = 7168, heads = 128, rank = 1536, kv = 512;
  const Graph v3 = Graph::build(test::deepseek_v3());
  const double queries = h * rank + rank * heads * 192, keys = h * (kv + 64) + kv * heads * (128 + 128);
  const double output = heads * 128 * h;
  CHECK(attention_flops(test::operators_of(v3, 1, megatron_setting(4096))) ==
        2 * s * (queries + keys + output) + 2 * s * s * heads * (192 + 128));
  const Graph lite = Graph::build(test::deepseek_v2_lite());
  CHECK(attention_flops(test::operators_of(lite, 1, megatron_setting(4096))) ==
        2 * s * (2048.0 * 16 * 192 + 2048 * 576 + 512 * 16 * 256 + 16 * 128 * 2048) + 2 * s * s * 16 * (192 + 128));
}

// Bytes per token in bf16: input and its norm, the latent vectors before and after their norms, what the core reads and
// makes, and of each latent norm a number.
TEST_CASE("latent attention keeps its latent vectors beside what the core reads") {
  const double h = 7168, heads = 128, per_head = 192 + 192 + 128 + 128;
  const double latent = 2 * (1536 + 1536 + 576 + 512) + 2 * 4;
  const Graph graph = Graph::build(test::deepseek_v3());
  PassSetting setting = megatron_setting(64);
  const auto saved = [&] { return attention_saved(test::operators_of(graph, 1, setting)) / 64; };
  CHECK(saved() == 2 * 2 * h + latent + heads * (2 * per_head + 4));
  // Heads are split; latent vectors are with their rows.
  setting.shards.tensor = 8;
  CHECK(saved() == 2 * 2 * h + latent + heads / 8 * (2 * per_head + 4));
  setting.tokens.row_ranks = 8;
  CHECK(saved() == (2 * 2 * h + latent + heads * (2 * per_head + 4)) / 8);
}

TEST_CASE("tensor ranks split the heads, and exchange latent vectors on the way to them") {
  const Graph graph = Graph::build(test::deepseek_v3());
  const ShardDegrees degrees{.tensor = 8};
  const auto local = [&](const char* name) { return local_elements(graph.parameter(1, name), degrees); };
  CHECK(local("attention.query_down.weight") == 1536 * 7168);
  CHECK(local("attention.query_up.weight") == 16 * 192 * 1536);
  CHECK(local("attention.key_value_down.weight") == 576 * 7168);
  CHECK(local("attention.key_value_up.weight") == 16 * 256 * 512);
  CHECK(local("attention.output.weight") == 16 * 128 * 7168);
  PassSetting setting = megatron_setting(64);
  setting.shards = degrees;
  const auto sent = [&](Collective collective, Direction direction) {
    double bytes = 0;
    for (const Operator& item : test::operators_of(graph, 1, setting))
      for (const Exchange& exchange : item.exchanges)
        if (item.half == LayerHalf::attention && exchange.collective == collective && exchange.direction == direction)
          bytes += exchange.bytes;
    return bytes / 64 / 2;
  };
  CHECK(sent(Collective::all_reduce, Direction::forward) == 7168);
  CHECK(sent(Collective::all_reduce, Direction::backward) == 1536 + 512 + 64);
  setting.tokens.row_ranks = 8;
  CHECK(sent(Collective::all_gather, Direction::forward) == 1536 + 512 + 64);
  CHECK(sent(Collective::reduce_scatter, Direction::forward) == 7168);
  CHECK(sent(Collective::reduce_scatter, Direction::backward) == 1536 + 512 + 64);
  // Gradients of the output, and once more what the weights' gradients need.
  CHECK(sent(Collective::all_gather, Direction::backward) == 7168 + 1536 + 512 + 64);
}

TEST_CASE("values of another width than keys") {
  const Graph graph = Graph::build(test::deepseek_v3());
  const OperatorList operators = test::operators_of(graph, 1, megatron_setting(128));
  const auto core = std::ranges::find(operators, "attention.core", &Operator::name);
  CHECK(core->product.inner == 192);
  CHECK(core->value_size == 128);
  const OperatorList dense = test::operators_of(Graph::build(test::llama3_8b()), 1, megatron_setting(128));
  CHECK(std::ranges::find(dense, "attention.core", &Operator::name)->value_size == 0);
}

TEST_CASE("leading layers are dense whatever the interval says") {
  ModelRecipe model = test::gpt2_model(6, 64, 4);
  model.moe = MixtureOfExpertsRecipe{.experts = 8, .every = 2, .dense_layers = 3, .ffn_hidden_size = 96};
  std::string layers;
  for (std::int64_t layer = 0; layer < 6; ++layer) layers += has_experts(model, layer) ? 'e' : 'd';
  CHECK(layers == "dddede");
}

}  // namespace
}  // namespace llmtrain
