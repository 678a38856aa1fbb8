// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/block_fields.h"
#include "core/graph/graph.h"
#include "core/graph/operators/operators.h"
#include "core/graph/values.h"
#include "core/recipe/pipeline_order.h"

namespace llmtrain {
namespace {

// google/vit-base-patch16-224 of Hugging Face's hub, which tells 1000 classes.
ModelRecipe vit_base() {
  ModelRecipe model;
  model.architecture = Architecture::vit;
  model.layers = 12;
  model.hidden_size = 768;
  model.heads = model.kv_heads = 12;
  model.head_dim = 64;
  model.ffn_hidden_size = 3072;
  model.image = ImageInputRecipe{};
  model.vocab_size = 1;
  model.max_sequence_length = 197;
  model.activation = Activation::gelu;
  model.norm_eps = 1e-12;
  model.tie_embeddings = false;
  model.classifier.emplace();
  for (int i = 0; i < 1000; ++i) model.classifier->classes.push_back(std::to_string(i));
  return model;
}

}  // namespace

TEST_CASE("a published model of images has as many parameters as its file") {
  const Graph graph = Graph::build(vit_base());
  CHECK(graph.parameter_count() == 86'567'656);
  CHECK(block_count(vit_base()) == std::ssize(graph.blocks));
  CHECK(graph.blocks[graph.block_named("layers.11")].alike == graph.block_named("layers.0"));
  const Parameter& kernel = graph.parameter(graph.block_named("embedding"), "patch.weight");
  CHECK(kernel.shape == std::vector<std::int64_t>{768, 3 * 16 * 16});
  CHECK(kernel.decays);
  CHECK_FALSE(graph.parameter(graph.block_named("embedding"), "position.weight").decays);
  CHECK_FALSE(graph.parameter(graph.block_named("embedding"), "class.weight").decays);
}

TEST_CASE("the FLOPs of a model of images are of its patches, and of one row in the head") {
  constexpr double hidden = 768, ffn = 3072, patches = 196, rows = patches + 1;
  const double patch = patches * 2 * hidden * 3 * 16 * 16;
  const double layer = rows * (4 * 2 * hidden * hidden + 2 * 2 * hidden * ffn) + 4 * rows * rows * hidden;
  const double head = 2 * hidden * 1000;
  // Pixels have no gradients.
  CHECK(training_flops_per_sample(Graph::build(vit_base()), 197) == Approx(2 * patch + 3 * (12 * layer + head)));
  // The published 17.6·10^9 multiply-adds of the forward, or 55.5·10^9 as counted by its authors for 384 pixels.
  CHECK((patch + 12 * layer + head) / 2 == Approx(17.6e9).epsilon(0.01));
  ModelRecipe large = vit_base();
  large.image->size = 384;
  large.max_sequence_length = large.image->rows();
  CHECK(large.image->rows() == 577);
  CHECK(training_flops_per_sample(Graph::build(large), 577) / 6 == Approx(55.5e9).epsilon(0.01));
}

TEST_CASE("a model of images reads pixels at its start, labels at its end, and hands on the rows of images") {
  const Graph graph = Graph::build(vit_base());
  std::vector<std::size_t> blocks{graph.block_named("embedding")};
  FieldSet expected{};
  expected[index_of(BatchField::pixels)] = true;
  CHECK(fields_read(graph, blocks) == expected);
  blocks = {graph.block_named("layers.3")};
  CHECK(fields_read(graph, blocks) == FieldSet{});
  blocks = {graph.block_named("head")};
  expected = {};
  expected[index_of(BatchField::label)] = true;
  CHECK(fields_read(graph, blocks) == expected);
  DataRecipe data;
  CHECK(missing_fields(graph, sample_fields(data)) ==
        std::vector<std::string>{"pixels, which the embedding reads", "label, which the head reads"});
  data.images.emplace();
  CHECK(missing_fields(graph, sample_fields(data)).empty());
  PassSetting setting;
  setting.tokens = {.batch = 5, .sequence_length = 197};
  const auto values = values_across(graph, graph.block_named("layers.4"));
  CHECK(values_bytes(graph, values, setting) == 4.0 * 5 * 197 * 768);
}

}  // namespace llmtrain
