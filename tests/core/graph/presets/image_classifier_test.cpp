// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
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

// torchvision's resnet50 and resnet18.
ModelRecipe resnet(ResidualBlock block, const std::vector<std::int64_t>& blocks) {
  ModelRecipe model;
  model.architecture = Architecture::resnet;
  model.resnet.emplace().block = block;
  std::int64_t channels = block == ResidualBlock::bottleneck ? 256 : 64;
  for (const std::int64_t of_stage : blocks) {
    model.resnet->stages.push_back({of_stage, channels});
    channels *= 2;
  }
  model.layers = model.resnet->blocks();
  model.hidden_size = model.resnet->channels();
  model.image = {.size = 224, .patch = 224};
  model.vocab_size = model.max_sequence_length = 1;
  model.norm = NormKind::groupnorm;
  model.position = Position::none;
  model.tie_embeddings = false;
  model.init_std = 1;
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
  large.max_sequence_length = large.image_rows();
  CHECK(large.image_rows() == 577);
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

// Group norms have as many weights as the batch norms of these, which are published with these counts.
TEST_CASE("published residual networks have as many parameters and multiply-adds as is said of them") {
  const Graph small = Graph::build(resnet(ResidualBlock::basic, {2, 2, 2, 2}));
  CHECK(small.parameter_count() == 11'689'512);
  const ModelRecipe recipe = resnet(ResidualBlock::bottleneck, {3, 4, 6, 3});
  const Graph large = Graph::build(recipe);
  CHECK(large.parameter_count() == 25'557'032);
  CHECK(block_count(recipe) == std::ssize(large.blocks));
  // Forwards of 1.814·10^9 and 4.089·10^9 multiply-adds; pixels have no gradients.
  const auto stem = 2.0 * 112 * 112 * 64 * 3 * 49;
  CHECK((training_flops_per_sample(small, 1) + stem) / 6 == Approx(1.814e9).epsilon(1e-3));
  CHECK((training_flops_per_sample(large, 1) + stem) / 6 == Approx(4.089e9).epsilon(1e-3));
}

TEST_CASE("an image of a residual network is one row, of what its convolutions leave") {
  const Graph graph = Graph::build(resnet(ResidualBlock::bottleneck, {3, 4, 6, 3}));
  const auto features_behind = [&](const std::string& block) {
    return graph.values[graph.blocks[graph.block_named(block)].outputs.at(0)].features;
  };
  CHECK(features_behind("embedding") == std::vector<std::int64_t>{64, 56, 56});
  CHECK(features_behind("layers.2") == std::vector<std::int64_t>{256, 56, 56});
  CHECK(features_behind("layers.3") == std::vector<std::int64_t>{512, 28, 28});
  CHECK(features_behind("layers.15") == std::vector<std::int64_t>{2048, 7, 7});
  CHECK(graph.blocks[graph.block_named("layers.5")].alike == graph.block_named("layers.4"));
  PassSetting setting;
  setting.tokens = {.batch = 5, .sequence_length = 1};
  const auto values = values_across(graph, graph.block_named("layers.4"));
  CHECK(values_bytes(graph, values, setting) == 4.0 * 5 * 512 * 28 * 28);
  std::vector<std::size_t> blocks{graph.block_named("embedding"), graph.block_named("head")};
  FieldSet expected{};
  expected[index_of(BatchField::pixels)] = expected[index_of(BatchField::label)] = true;
  CHECK(fields_read(graph, blocks) == expected);
}

TEST_CASE("the weights of a residual network begin as torchvision's, and its norms do not decay") {
  const Graph graph = Graph::build(resnet(ResidualBlock::basic, {2, 2}));
  const auto of = [&](const char* block, const char* name) -> const Parameter& {
    return graph.parameter(graph.block_named(block), name);
  };
  // √(2 ÷ fan out).
  CHECK(of("embedding", "conv.weight").standard_deviation == Approx(std::sqrt(2.0 / (64 * 49))));
  CHECK(of("layers.2", "conv1.weight").standard_deviation == Approx(std::sqrt(2.0 / (128 * 9))));
  CHECK(of("layers.2", "conv1.weight").shape == std::vector<std::int64_t>{128, 64 * 9});
  CHECK(of("layers.2", "shortcut.conv.weight").standard_deviation == Approx(std::sqrt(2.0 / 128)));
  CHECK(of("head", "classifier.weight").standard_deviation == Approx(1 / std::sqrt(3.0 * 128)));
  for (const char* norm : {"norm1.weight", "norm2.weight", "shortcut.norm.weight"}) {
    CHECK(of("layers.2", norm).initialization == Initialization::ones);
    CHECK_FALSE(of("layers.2", norm).decays);
    CHECK(of("layers.2", norm).shape == std::vector<std::int64_t>{128});
  }
  CHECK(of("layers.2", "conv2.weight").decays);
}

}  // namespace llmtrain
