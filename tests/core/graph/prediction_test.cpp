// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

ModelRecipe predicting(ModelRecipe model, std::int64_t depth) {
  model.multi_token_prediction = {.depth = depth, .coefficient = 0.3};
  return model;
}

std::int64_t size_of_block(const Graph& graph, std::string_view name) {
  std::int64_t size = 0;
  for (const std::size_t index : graph.blocks[graph.block_named(name)].parameters)
    size += graph.parameters[index].elements();
  return size;
}

// DeepSeek-V3 (arXiv 2412.19437, section 2.2): a layer with experts, a projection of twice the width, two norms before
// it and one before the head.
TEST_CASE("layers that predict further tokens share embedding and head") {
  const Graph plain = Graph::build(test::deepseek_v3()), graph = Graph::build(predicting(test::deepseek_v3(), 1));
  const std::int64_t hidden = 7168;
  CHECK(graph.parameter_count() - plain.parameter_count() ==
        size_of_block(plain, "layers.60") + 2 * hidden * hidden + 3 * hidden);
  CHECK(graph.embedding_parameter_count() == plain.embedding_parameter_count());
  CHECK(graph.units() == 61);
  const Block &layer = graph.blocks[graph.block_named("prediction.1")], &head = graph.blocks.back();
  CHECK(layer.experts() != nullptr);
  CHECK(layer.inputs == graph.blocks[graph.block_named("head")].inputs);
  CHECK(head.inputs == layer.outputs);
  const auto readers = [&](const char* name) {
    return std::ranges::find(graph.parameters, name, &Parameter::name)->readers.size();
  };
  CHECK(readers("embedding.token.weight") == 2);
  CHECK(readers("head.weight") == 2);
  CHECK(std::ranges::count(graph.parameters, "prediction.1.head.final_norm.weight", &Parameter::name) == 1);
}

TEST_CASE("a tied table is read by every prediction and its head") {
  const Graph graph = Graph::build(predicting(test::gpt2_model(4, 64, 4), 2));
  const auto& table = *std::ranges::find(graph.parameters, "embedding.token.weight", &Parameter::name);
  // Embedding, head, and twice a layer and a head.
  CHECK(table.readers.size() == 6);
  // The second one reads what the first one made.
  CHECK(graph.blocks[graph.block_named("prediction.2")].inputs ==
        graph.blocks[graph.block_named("prediction.1")].outputs);
}

TEST_CASE("the losses of further tokens share the coefficient") {
  const Graph graph = Graph::build(predicting(test::gpt2_model(4, 64, 4), 2));
  REQUIRE(graph.row_losses().size() == 3);
  CHECK(graph.row_losses()[0].name == "loss");
  CHECK(graph.row_losses()[1].name == "prediction_1_loss");
  CHECK(graph.row_losses()[2].name == "prediction_2_loss");
  CHECK(graph.row_losses()[0].coefficient == 1);
  CHECK(graph.row_losses()[1].coefficient == 0.15);
  CHECK(graph.row_losses()[2].coefficient == 0.15);
}

TEST_CASE("a prediction costs a layer, a projection of two widths, and a head") {
  const ModelRecipe model = test::gpt2_model(4, 64, 4);
  const Graph plain = Graph::build(model), graph = Graph::build(predicting(model, 1));
  const double s = 32, h = 64, vocabulary = static_cast<double>(model.vocab_size);
  const auto flops = [&](const Graph& of, std::size_t block) {
    PassSetting setting;
    setting.tokens.sequence_length = 32;
    return forward_flops(test::operators_of(of, block, setting));
  };
  CHECK(flops(graph, graph.block_named("prediction.1")) == flops(plain, 1) + 2 * s * h * 2 * h);
  CHECK(flops(graph, graph.blocks.size() - 1) == 2 * s * h * vocabulary);
  CHECK(training_flops_per_sample(graph, 32) - training_flops_per_sample(plain, 32) ==
        3 * (flops(plain, 1) + 2 * s * h * 2 * h + 2 * s * h * vocabulary));
}

// At full recompute the block's input alone is kept.
TEST_CASE("a prediction keeps its input, the embedding's rows and the projection's") {
  const ModelRecipe model = test::gpt2_model(4, 64, 4);
  const Graph graph = Graph::build(predicting(model, 1));
  PassSetting setting;
  setting.program.kept_tensors = KeptTensors::megatron;
  setting.tokens.sequence_length = 32;
  setting.numbers.compute = DataType::bf16;
  const auto saved = [&](const char* name) {
    return test::saved_bytes(graph, graph.block_named(name), setting) / 32 / 2 / 64;
  };
  // Input, embedded, two normed ones, and the projection's result in the place of a layer's input.
  CHECK(saved("prediction.1") - saved("layers.3") == 4);
  setting.recompute = Recompute::full;
  CHECK(saved("prediction.1") == 1);
}

}  // namespace
}  // namespace llmtrain
