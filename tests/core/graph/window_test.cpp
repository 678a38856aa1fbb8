// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

PassSetting window_setting(std::int64_t sequence, AttentionKernel kernel) {
  PassSetting setting;
  setting.program.kept_tensors = KeptTensors::megatron;
  setting.program.attention = kernel;
  setting.tokens.sequence_length = sequence;
  setting.numbers.compute = DataType::bf16;
  return setting;
}

Operator attention_core(const Graph& graph, std::size_t block, const PassSetting& setting) {
  const OperatorList operators = test::operators_of(graph, block, setting);
  return *std::ranges::find(operators, "attention.core", &Operator::name);
}

ModelRecipe windowed(std::int64_t tokens, std::int64_t global_every) {
  ModelRecipe model = test::llama3_8b();
  model.layers = 12;
  model.sliding_window = {.tokens = tokens, .global_every = global_every, .rope_theta = 20000, .rope_scaling = false};
  return model;
}

// Gemma 3 has five local layers before each global one, GPT-OSS begins with a local one of two, all of Mistral's are.
TEST_CASE("local layers are all but every n-th one") {
  const auto layers = [](std::int64_t global_every) {
    const Graph graph = Graph::build(windowed(128, global_every));
    std::string kinds;
    for (const Block& block : graph.blocks)
      if (const auto* layer = std::get_if<LayerSettings>(&block.settings)) kinds += layer->attention.window ? 'l' : 'g';
    return kinds;
  };
  CHECK(layers(6) == "lllllglllllg");
  CHECK(layers(2) == "lglglglglglg");
  CHECK(layers(1) == "gggggggggggg");
  CHECK(layers(0) == "llllllllllll");
}

TEST_CASE("local layers have rotary positions of their own") {
  ModelRecipe model = windowed(128, 2);
  model.rope_scaling = RopeScalingRecipe{.factor = 8};
  const auto rope = [&](std::size_t block) {
    return *std::get<LayerSettings>(Graph::build(model).blocks[block].settings).attention.rope;
  };
  CHECK(rope(1).theta == 20000);
  CHECK_FALSE(rope(1).scaling);
  CHECK(rope(2).theta == model.rope_theta);
  CHECK(rope(2).scaling == model.rope_scaling);
  model.sliding_window->rope_scaling = true;
  CHECK(rope(1).scaling == model.rope_scaling);
}

// Counted key by key: a query at position i sees min(i + 1, w) keys, without a window i + 1.
TEST_CASE("a window leaves the share of causal scores that queries see") {
  const std::int64_t s = 4096;
  for (const std::int64_t w : {1, 128, 1000, 4096, 8192}) {
    double seen = 0, causal = 0;
    for (std::int64_t i = 0; i < s; ++i) {
      seen += static_cast<double>(std::min(i + 1, w));
      causal += static_cast<double>(i + 1);
    }
    CAPTURE(w);
    // Papers leave out half of the diagonal, of s keys of each.
    CHECK(window_share(s, static_cast<double>(w)) == Approx(seen / causal).margin(1.0 / s));
  }
  CHECK(window_share(512, 512) == 1);
}

TEST_CASE("layers with a window have fewer FLOPs and keep the same tensors") {
  const Graph graph = Graph::build(windowed(1024, 2));
  const PassSetting setting = window_setting(4096, AttentionKernel::flash);
  const Operator local = attention_core(graph, 1, setting), global = attention_core(graph, 2, setting);
  // 1 - (3/4)² of 4s² per element of a query.
  CHECK(local.flops == Approx(4.0 * 4096 * 4096 * 32 * 128 * 7 / 16));
  CHECK(global.flops == Approx(4.0 * 4096 * 4096 * 32 * 128));
  CHECK(local.window == 1024);
  CHECK(global.window == 0);
  CHECK(test::saved_bytes(graph, 1, setting) == test::saved_bytes(graph, 2, setting));
  CHECK(graph.blocks[1].alike != graph.blocks[2].alike);
  // Stored scores are made and kept whole.
  const PassSetting stored = window_setting(4096, AttentionKernel::math);
  CHECK(attention_core(graph, 1, stored).product.columns == 4096);
  CHECK(test::saved_bytes(graph, 1, stored) == test::saved_bytes(graph, 2, stored));
  // Sequences that no window limits.
  const PassSetting brief = window_setting(1024, AttentionKernel::flash);
  CHECK(attention_core(graph, 1, brief).flops == attention_core(graph, 2, brief).flops);
}

}  // namespace
}  // namespace llmtrain
