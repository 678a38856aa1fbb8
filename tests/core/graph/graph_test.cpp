// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/recipe/pipeline_order.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

TEST_CASE("parameter counts of published models") {
  CHECK(Graph::build(test::gpt2_model(12, 768, 12)).parameter_count() == 124'439'808);
  CHECK(Graph::build(test::gpt2_model(24, 1024, 16)).parameter_count() == 354'823'168);
  CHECK(Graph::build(test::gpt2_model(36, 1280, 20)).parameter_count() == 774'030'080);
  CHECK(Graph::build(test::gpt2_model(48, 1600, 25)).parameter_count() == 1'557'611'200);
  CHECK(Graph::build(test::llama2_7b()).parameter_count() == 6'738'415'616);
  CHECK(Graph::build(test::llama3_8b()).parameter_count() == 8'030'261'248);
  CHECK(Graph::build(test::qwen3_600m()).parameter_count() == 596'049'920);
}

TEST_CASE("embedding parameters are the tables and an untied head") {
  const Graph gpt2 = Graph::build(test::gpt2_model(12, 768, 12));
  CHECK(gpt2.embedding_parameter_count() == (50257 + 1024) * 768);
  // 12 layers of 12·768² + 13·768, and the last norm.
  CHECK(gpt2.parameter_count() - gpt2.embedding_parameter_count() == 85'056'000);
  CHECK(Graph::build(test::llama3_8b()).embedding_parameter_count() == 2 * 128256LL * 4096);
  CHECK(Graph::build(test::qwen3_600m()).embedding_parameter_count() == 151936LL * 1024);
}

// Computed without the table: the size of one layer from the keys alone.
std::int64_t layer_size(const ModelRecipe& m) {
  const std::int64_t query = m.heads * m.head_dim;
  const std::int64_t keys_and_values = 2 * m.kv_heads * m.head_dim;
  const std::int64_t inner = (is_gated(m.activation) ? 2 : 1) * m.ffn_hidden_size;
  const std::int64_t matrices =
      m.hidden_size * (query + keys_and_values + query) + m.hidden_size * (inner + m.ffn_hidden_size);
  const std::int64_t norms = m.hidden_size * 2 * (m.bias && m.norm == NormKind::layernorm ? 2 : 1);
  const std::int64_t biases = (m.qkv_bias ? query + keys_and_values : 0) +
                              (m.attention_output_bias ? m.hidden_size : 0) + (m.bias ? inner + m.hidden_size : 0);
  return matrices + norms + biases + (m.qk_norm ? 2 * m.head_dim : 0);
}

TEST_CASE("every combination of keys builds a model of the right size") {
  for (const ModelRecipe& m : test::all_small_models()) {
    const std::int64_t tables = m.hidden_size * (m.vocab_size * (m.tie_embeddings ? 1 : 2) +
                                                 (m.position == Position::learned ? m.max_sequence_length : 0));
    const std::int64_t final_norm = m.hidden_size * (m.bias && m.norm == NormKind::layernorm ? 2 : 1);
    const Graph graph = Graph::build(m);
    REQUIRE(graph.parameter_count() == tables + final_norm + m.layers * layer_size(m));
    REQUIRE(graph.embedding_parameter_count() == tables);
  }
}

TEST_CASE("names are unique and each parameter is in exactly one block, in order") {
  for (const ModelRecipe& model : test::all_small_models()) {
    const Graph graph = Graph::build(model);
    std::set<std::string> names;
    for (const Parameter& parameter : graph.parameters) REQUIRE(names.insert(parameter.name).second);
    std::size_t next = 0;
    for (const Block& block : graph.blocks)
      for (const std::size_t index : block.parameters) REQUIRE(index == next++);
    REQUIRE(next == graph.parameters.size());
  }
}

TEST_CASE("blocks are the embedding, the layers and the head") {
  const Graph graph = Graph::build(test::gpt2_model(3, 64, 4));
  REQUIRE(graph.blocks.size() == 5);
  CHECK(graph.blocks.size() == static_cast<std::size_t>(block_count(graph.model)));
  CHECK(graph.units() == 3);
  const auto names = {"embedding", "layers.0", "layers.1", "layers.2", "head"};
  CHECK(std::ranges::equal(graph.blocks, names, {}, &Block::name));
  CHECK(std::holds_alternative<EmbeddingSettings>(graph.blocks.front().settings));
  CHECK(graph.blocks.front().layer() == nullptr);
  for (std::size_t layer = 0; layer < 3; ++layer) {
    REQUIRE(graph.blocks[layer + 1].layer() != nullptr);
    CHECK(graph.blocks[layer + 1].layer()->index == static_cast<std::int64_t>(layer));
    CHECK(graph.blocks[layer + 1].is_unit);
  }
  CHECK(std::holds_alternative<HeadSettings>(graph.blocks.back().settings));
  CHECK_FALSE((graph.blocks.front().is_unit || graph.blocks.back().is_unit));
}

TEST_CASE("parameters are found by block and name") {
  const Graph graph = Graph::build(test::llama3_8b());
  CHECK(graph.parameter(0, "token.weight").name == "embedding.token.weight");
  CHECK(graph.parameter(8, "attention.key.weight").name == "layers.7.attention.key.weight");
  CHECK(graph.parameter(33, "head.weight").name == "head.weight");
  CHECK(graph.has_parameter(1, "ffn.gate.weight"));
  CHECK_FALSE(graph.has_parameter(1, "ffn.gate.bias"));
  CHECK_FALSE(graph.has_parameter(0, "position.weight"));
  CHECK_THROWS_AS(graph.parameter(1, "attention.query.bias"), std::out_of_range);
  CHECK_THROWS_AS(graph.parameter(34, "head.weight"), std::out_of_range);
  CHECK_THROWS_AS(graph.has_parameter(34, "head.weight"), std::out_of_range);
}

TEST_CASE("logits come from the head, or from the tied token embedding") {
  const Graph untied = Graph::build(test::llama3_8b());
  CHECK(untied.parameter(33, "head.weight").name == "head.weight");
  CHECK(untied.parameters.front().readers == std::vector<std::size_t>{0});
  const Graph tied = Graph::build(test::qwen3_600m());
  CHECK(&tied.parameter(29, "head.weight") == &tied.parameters.front());
  CHECK(tied.parameters.front().readers == std::vector<std::size_t>{0, 29});
}

TEST_CASE("blocks share parameters of earlier ones, in the order of the readers") {
  Graph graph = Graph::build(test::gpt2_model(4, 64, 4));
  const std::size_t norm = graph.index_of(graph.parameter(1, "ffn_norm.weight"));
  for (const std::size_t reader : {4, 3, 4}) graph.share(norm, reader, "norm_of_" + std::to_string(reader));
  CHECK(graph.parameters[norm].readers == std::vector<std::size_t>{1, 3, 4});
  CHECK(&graph.parameter(3, "norm_of_3") == &graph.parameters[norm]);
  CHECK_FALSE(graph.has_parameter(1, "norm_of_3"));
  CHECK_THROWS_AS(graph.share(norm, 1, "itself"), std::invalid_argument);
}

}  // namespace
}  // namespace llmtrain
