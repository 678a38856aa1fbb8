// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

// Forward FLOPs of one sequence of this many tokens.
double flops_of(const Graph& graph, std::size_t block, std::int64_t tokens) {
  PassSetting setting;
  setting.tokens.sequence_length = tokens;
  return forward_flops(test::operators_of(graph, block, setting));
}

double sum_of_blocks(const Graph& graph, std::int64_t sequence) {
  double flops = 0;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) flops += 3 * flops_of(graph, block, sequence);
  return flops;
}

TEST_CASE("FLOPs per step of GPT-2's shapes match the published closed form") {
  for (const std::int64_t l : {1, 12, 48})
    for (const std::int64_t h : {64, 768, 1600})
      for (const std::int64_t s : {1, 64, 1024}) {
        const Graph graph = Graph::build(test::gpt2_model(l, h, 4));
        const double layers = static_cast<double>(l), hidden = static_cast<double>(h), length = static_cast<double>(s);
        const double batch = 8, vocabulary = 50257;
        const double expected = 72 * batch * layers * length * hidden * hidden *
                                (1 + length / (6 * hidden) + vocabulary / (12 * layers * hidden));
        CHECK(batch * training_flops_per_sample(graph, s) == Approx(expected).epsilon(1e-12));
        CHECK(8 * sum_of_blocks(graph, s) == Approx(expected).epsilon(1e-12));
      }
}

TEST_CASE("FLOPs of grouped heads, wide heads and gated feed-forward") {
  // Qwen3-0.6B, forward, one token at 512: products 2·(h·(q + 2kv + q) + 3·h·f), attention 4·s·q.
  const Graph graph = Graph::build(test::qwen3_600m());
  const double products = 2.0 * (1024.0 * (2048 + 2 * 1024 + 2048) + 3.0 * 1024 * 3072);
  const double attention = 4.0 * 512 * 2048;
  CHECK(flops_of(graph, 1, 512) == 512 * (products + attention));
  CHECK(flops_of(graph, 29, 512) == 512 * 2.0 * 1024 * 151936);
  CHECK(flops_of(graph, 0, 512) == 0);
  CHECK(training_flops_per_sample(graph, 512) == 512 * 3 * (28 * (products + attention) + 2.0 * 1024 * 151936));
}

TEST_CASE("neither biases nor tying change the FLOPs") {
  ModelRecipe model = test::gpt2_model(4, 64, 4);
  const double with = training_flops_per_sample(Graph::build(model), 32);
  model.set_biases(false);
  model.tie_embeddings = false;
  CHECK(training_flops_per_sample(Graph::build(model), 32) == with);
}

TEST_CASE("recomputation repeats whole layers, or only attention that stores scores") {
  const Graph graph = Graph::build(test::gpt2_model(2, 64, 4));
  const auto repeated = [&](AttentionKernel attention, Recompute recompute) {
    PassSetting setting;
    setting.tokens.sequence_length = 128;
    setting.program.attention = attention;
    return repeated_flops(test::operators_of(graph, 1, setting), recompute);
  };
  CHECK(repeated(AttentionKernel::math, Recompute::none) == 0);
  CHECK(repeated(AttentionKernel::math, Recompute::selective) == 4.0 * 128 * 128 * 64);
  CHECK(repeated(AttentionKernel::flash, Recompute::selective) == 0);
  CHECK(repeated(AttentionKernel::flash, Recompute::full) == flops_of(graph, 1, 128));
  PassSetting setting;
  setting.tokens.sequence_length = 128;
  CHECK(repeated_flops(test::operators_of(graph, 3, setting), Recompute::full) == 0);
}

TEST_CASE("identical blocks are found, whatever their number") {
  ModelRecipe model = test::gpt2_model(6, 64, 4);
  model.moe = MixtureOfExpertsRecipe{.experts = 8, .every = 3, .ffn_hidden_size = 96};
  const Graph graph = Graph::build(model);
  std::vector<std::size_t> alike;
  for (const Block& block : graph.blocks) alike.push_back(block.alike);
  CHECK(alike == std::vector<std::size_t>{0, 1, 1, 3, 1, 1, 3, 7});
  CHECK(graph.block_named("head") == 7);
  CHECK_THROWS(graph.block_named("tail"));
}

}  // namespace
}  // namespace llmtrain
