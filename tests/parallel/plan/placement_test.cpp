// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/stages.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

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

TEST_CASE("a list gives the layers of each stage") {
  CHECK(place({4, 1, 1, by_list({4})}) == Blocks{{0, 1, 2, 3, 4, 5}});
  CHECK(place({4, 3, 1, by_list({1, 2, 1})}) == Blocks{{0, 1}, {2, 3}, {4, 5}});
  CHECK(place({4, 3, 1, by_list({0, 4, 0})}) == Blocks{{0}, {1, 2, 3, 4}, {5}});
}

TEST_CASE("stages that the rules of recipes refuse are never placed") {
  for (const PlacementCase& refused :
       {PlacementCase{4, 3, 1, by_layers}, PlacementCase{4, 4, 1, by_blocks}, PlacementCase{4, 2, 1, by_list({1, 2})},
        PlacementCase{4, 2, 1, by_list({1, 2, 1})}, PlacementCase{4, 1, 1, by_list({})}})
    CHECK_THROWS_WITH(place(refused), Catch::Contains("violate the rules of recipes"));
}

TEST_CASE("properties of every placement") {
  rc::prop("each block is in exactly one stage, in order, and no stage is empty", [] {
    const bool blocks = *rc::gen::arbitrary<bool>();
    const std::int64_t ranks = *rc::gen::inRange(1, 6), loops = *rc::gen::inRange(1, 6);
    const std::int64_t each = *rc::gen::inRange(blocks ? 3 : 1, 6);
    const Blocks stages =
        place({ranks * loops * each - (blocks ? 2 : 0), ranks, loops, blocks ? by_blocks : by_layers});
    RC_ASSERT(stages.size() == static_cast<std::size_t>(ranks * loops));
    std::size_t next = 0;
    for (const auto& stage : stages) {
      RC_ASSERT(!stage.empty());
      for (const std::size_t block : stage) RC_ASSERT(block == next++);
    }
    RC_ASSERT(next == static_cast<std::size_t>(ranks * loops * each + (blocks ? 0 : 2)));
  });
}

}  // namespace
}  // namespace llmtrain
