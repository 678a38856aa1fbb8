// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/graph/graph.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

double sum_of_blocks(const Graph& graph, std::int64_t tokens, std::int64_t sequence) {
  double flops = 0;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const BlockCost cost = graph.cost(block, tokens, sequence, 4);
    flops += cost.forward_flops + cost.backward_flops;
  }
  return flops;
}

TEST_CASE("a step's FLOPs of GPT-2 shapes are the published closed form") {
  for (const std::int64_t l : {1, 12, 48})
    for (const std::int64_t h : {64, 768, 1600})
      for (const std::int64_t s : {1, 64, 1024}) {
        const Graph graph = Graph::build(test::gpt2_model(l, h, 4));
        const double layers = static_cast<double>(l), hidden = static_cast<double>(h), length = static_cast<double>(s);
        const double batch = 8, vocabulary = 50257;
        const double expected = 72 * batch * layers * length * hidden * hidden *
                                (1 + length / (6 * hidden) + vocabulary / (12 * layers * hidden));
        CHECK(batch * length * graph.training_flops_per_token(s) == Approx(expected).epsilon(1e-12));
        CHECK(sum_of_blocks(graph, 8 * s, s) == Approx(expected).epsilon(1e-12));
      }
}

TEST_CASE("FLOPs of grouped heads, wide heads and gated feed-forward") {
  // Qwen3-0.6B, forward, one token at 512: products 2·(h·(q + 2kv + q) + 3·h·f), attention 4·s·q.
  const Graph graph = Graph::build(test::qwen3_600m());
  const double products = 2.0 * (1024.0 * (2048 + 2 * 1024 + 2048) + 3.0 * 1024 * 3072);
  const double attention = 4.0 * 512 * 2048;
  const BlockCost layer = graph.cost(1, 1, 512, 2);
  CHECK(layer.forward_flops == products + attention);
  CHECK(layer.backward_flops == 2 * (products + attention));
  CHECK(graph.cost(29, 1, 512, 2).forward_flops == 2.0 * 1024 * 151936);
  CHECK(graph.cost(0, 1, 512, 2).forward_flops == 0);
  CHECK(graph.training_flops_per_token(512) == 3 * (28 * (products + attention) + 2.0 * 1024 * 151936));
}

TEST_CASE("neither biases nor tying change the FLOPs") {
  ModelRecipe model = test::gpt2_model(4, 64, 4);
  const double with = Graph::build(model).training_flops_per_token(32);
  model.bias = model.qkv_bias = model.tie_embeddings = false;
  CHECK(Graph::build(model).training_flops_per_token(32) == with);
}

TEST_CASE("bytes of a GPT-2 layer") {
  const double h = 64, tokens = 96;
  ModelRecipe model = test::gpt2_model(2, 64, 4);
  // Two norms 2h each, query-key-value h + 3h, attention 4h, output 2h, up h + 4h, gelu 8h, down 4h + h, two additions
  // 3h each; the weights 12h² + 13h.
  const double per_token = 4 * h + 4 * h + 4 * h + 2 * h + 5 * h + 8 * h + 5 * h + 6 * h;
  const double weights = 12 * h * h + 13 * h;
  CHECK(Graph::build(model).cost(1, 96, 32, 4).forward_bytes == 4 * (per_token * tokens + weights));
  CHECK(Graph::build(model).cost(1, 96, 32, 2).forward_bytes == 2 * (per_token * tokens + weights));
  // Dropout reads and writes two residual branches, and brings four rows of scores of 32 into memory six times.
  model.dropout = 0.1;
  CHECK(Graph::build(model).cost(1, 96, 32, 4).forward_bytes ==
        4 * ((per_token + 4 * h + 6 * 4 * 32) * tokens + weights));
}

TEST_CASE("bytes of a Llama layer") {
  // q 2048, k = v 1024. Norms 4h, query-key-value h + 4096, per-head norms and rotation 2·3072 each, attention
  // 2·2048 + 2·1024, output 2048 + h, gate and up h + 2f, gating 3f, down f + h, additions 6h.
  const double h = 1024, f = 3072;
  const double per_token =
      4 * h + (h + 4096) + 4 * 3072 + (2 * 2048 + 2 * 1024) + (2048 + h) + (h + 2 * f) + 3 * f + (f + h) + 6 * h;
  const double weights = h * (2048 + 2 * 1024 + 2048) + 3 * h * f + 2 * h + 2 * 128;
  CHECK(Graph::build(test::qwen3_600m()).cost(5, 10, 512, 2).forward_bytes == 2 * (per_token * 10 + weights));
}

TEST_CASE("bytes of embedding and head") {
  ModelRecipe model = test::gpt2_model(2, 64, 4);
  const double h = 64, v = 50257;
  CHECK(Graph::build(model).cost(0, 10, 5, 4).forward_bytes == 4 * 10 * 3 * h);
  CHECK(Graph::build(model).cost(3, 10, 5, 4).forward_bytes == 4 * (10 * (3 * h + 2 * v) + v * h + 2 * h));
  model.tie_embeddings = false;
  CHECK(Graph::build(model).cost(3, 10, 5, 4).forward_bytes == 4 * (10 * (3 * h + 2 * v) + v * h + 2 * h));
  model.position = Position::rope;
  model.dropout = 0.1;
  CHECK(Graph::build(model).cost(0, 10, 5, 4).forward_bytes == 4 * 10 * (2 * h + 2 * h));
}

}  // namespace
}  // namespace llmtrain
