// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/stages.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>

namespace llmtrain {
namespace {

using Blocks = std::vector<std::vector<std::size_t>>;

Graph graph_of(std::int64_t layers) {
  ModelRecipe model;
  model.layers = layers;
  model.hidden_size = model.heads = model.kv_heads = model.head_dim = model.ffn_hidden_size = model.vocab_size = 1;
  model.max_sequence_length = 1;
  return Graph::build(model);
}

struct PlacementCase {
  std::int64_t layers = 1;
  std::int64_t ranks = 1;
  std::int64_t loops = 1;
  BalanceRecipe balance;
};

Blocks place(const PlacementCase& c) {
  PipelineRecipe pipeline;
  pipeline.loops = c.loops;
  pipeline.balance = c.balance;
  Blocks blocks;
  for (const Stage& stage : place_blocks(graph_of(c.layers), pipeline, c.ranks)) blocks.push_back(stage.blocks);
  return blocks;
}

const BalanceRecipe by_layers{.kind = BalanceKind::layers, .layers_per_stage = {}};
const BalanceRecipe by_blocks{.kind = BalanceKind::blocks, .layers_per_stage = {}};
BalanceRecipe by_list(std::vector<std::int64_t> list) {
  return {.kind = BalanceKind::list, .layers_per_stage = std::move(list)};
}

TEST_CASE("layers: an equal number each, embedding in the first stage and head in the last") {
  CHECK(place({4, 1, 1, by_layers}) == Blocks{{0, 1, 2, 3, 4, 5}});
  CHECK(place({4, 1, 2, by_layers}) == Blocks{{0, 1, 2}, {3, 4, 5}});
  CHECK(place({4, 2, 2, by_layers}) == Blocks{{0, 1}, {2}, {3}, {4, 5}});
}

TEST_CASE("blocks: embedding and head count as one layer each") {
  CHECK(place({4, 1, 1, by_blocks}) == Blocks{{0, 1, 2, 3, 4, 5}});
  CHECK(place({4, 3, 1, by_blocks}) == Blocks{{0, 1}, {2, 3}, {4, 5}});
  CHECK(place({4, 2, 3, by_blocks}) == Blocks{{0}, {1}, {2}, {3}, {4}, {5}});
}

TEST_CASE("so does any other block that is no unit") {
  Graph graph = graph_of(4);
  graph.blocks.insert(graph.blocks.begin() + 1, {.name = "another", .settings = EmbeddingSettings{}});
  PipelineRecipe pipeline;
  const auto blocks_of = [&](const BalanceRecipe& balance, std::int64_t ranks) {
    pipeline.balance = balance;
    Blocks blocks;
    for (const Stage& stage : place_blocks(graph, pipeline, ranks)) blocks.push_back(stage.blocks);
    return blocks;
  };
  CHECK(blocks_of(by_blocks, 7) == Blocks{{0}, {1}, {2}, {3}, {4}, {5}, {6}});
  CHECK(blocks_of(by_layers, 2) == Blocks{{0, 1, 2, 3}, {4, 5, 6}});
}

// How many layers each stage has, by stage.
std::vector<std::size_t> layers_of(const PlacementCase& c) {
  std::vector<std::size_t> layers;
  for (const auto& blocks : place(c)) layers.push_back(blocks.size());
  --layers.front();  // the embedding
  --layers.back();   // the head
  return layers;
}

TEST_CASE("layers that do not divide are on the stages without embedding and head first, last on that of the head") {
  using Layers = std::vector<std::size_t>;
  CHECK(layers_of({5, 2, 1, by_layers}) == Layers{3, 2});
  CHECK(layers_of({126, 4, 1, by_layers}) == Layers{31, 32, 32, 31});
  CHECK(layers_of({127, 4, 1, by_layers}) == Layers{32, 32, 32, 31});
  CHECK(layers_of({61, 8, 1, by_layers}) == Layers{7, 8, 8, 8, 8, 8, 7, 7});
  CHECK(layers_of({126, 4, 1, by_blocks}) == Layers{31, 32, 32, 31});
  CHECK(layers_of({94, 4, 1, by_blocks}) == Layers{23, 24, 24, 23});
  CHECK(layers_of({5, 4, 1, by_blocks}) == Layers{1, 2, 2, 0});
  CHECK(layers_of({5, 1, 3, by_layers}) == Layers{2, 2, 1});
}

TEST_CASE("with loops the layers left over go to different ranks") {
  using Layers = std::vector<std::size_t>;
  CHECK(layers_of({5, 2, 2, by_layers}) == Layers{1, 1, 2, 1});
  CHECK(layers_of({6, 2, 2, by_layers}) == Layers{1, 2, 2, 1});
  CHECK(layers_of({7, 2, 2, by_layers}) == Layers{2, 2, 2, 1});
  // The ranks between the ends, of stages 1, 4 and 7, before that of the embedding.
  CHECK(layers_of({10, 3, 3, by_layers}) == Layers{1, 2, 1, 1, 1, 1, 1, 1, 1});
  CHECK(layers_of({11, 3, 3, by_layers}) == Layers{1, 2, 1, 2, 1, 1, 1, 1, 1});
  CHECK(layers_of({12, 3, 3, by_layers}) == Layers{1, 2, 2, 2, 1, 1, 1, 1, 1});
}

TEST_CASE("a list gives the layers of each stage") {
  CHECK(place({4, 1, 1, by_list({4})}) == Blocks{{0, 1, 2, 3, 4, 5}});
  CHECK(place({4, 3, 1, by_list({1, 2, 1})}) == Blocks{{0, 1}, {2, 3}, {4, 5}});
  CHECK(place({4, 3, 1, by_list({0, 4, 0})}) == Blocks{{0}, {1, 2, 3, 4}, {5}});
}

TEST_CASE("stages that the rules of recipes refuse are never placed") {
  for (const PlacementCase& refused :
       {PlacementCase{4, 5, 1, by_layers}, PlacementCase{4, 7, 1, by_blocks}, PlacementCase{4, 2, 1, by_list({1, 2})},
        PlacementCase{4, 2, 1, by_list({1, 2, 1})}, PlacementCase{4, 1, 1, by_list({})}})
    CHECK_THROWS_WITH(place(refused), Catch::Contains("violate the rules of recipes"));
}

TEST_CASE("properties of every placement") {
  rc::prop("blocks are in order, no stage is empty, and stages and ranks differ by one at most", [] {
    const bool blocks = *rc::gen::arbitrary<bool>();
    const std::int64_t ranks = *rc::gen::inRange(1, 6), loops = *rc::gen::inRange(1, 6);
    const std::int64_t fewest = std::max<std::int64_t>(1, ranks * loops - (blocks ? 2 : 0));
    const std::int64_t layers = *rc::gen::inRange(fewest, fewest + 3 * ranks * loops);
    const Blocks stages = place({layers, ranks, loops, blocks ? by_blocks : by_layers});
    RC_ASSERT(stages.size() == static_cast<std::size_t>(ranks * loops));
    std::size_t next = 0;
    std::vector<std::size_t> of_stages, of_ranks(static_cast<std::size_t>(ranks));
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      RC_ASSERT(!stages[stage].empty());
      for (const std::size_t block : stages[stage]) RC_ASSERT(block == next++);
      // Without embedding and head, unless they count as layers.
      const std::size_t ends = (stage == 0 ? 1 : 0) + (stage + 1 == stages.size() ? 1 : 0);
      of_stages.push_back(stages[stage].size() - (blocks ? 0 : ends));
      of_ranks[stage % of_ranks.size()] += of_stages.back();
    }
    RC_ASSERT(next == static_cast<std::size_t>(layers + 2));
    for (const auto& counts : {of_stages, of_ranks}) {
      const auto [least, most] = std::ranges::minmax(counts);
      RC_ASSERT(most - least <= 1);
      RC_ASSERT(counts.back() == least);
    }
  });
}

}  // namespace
}  // namespace llmtrain
