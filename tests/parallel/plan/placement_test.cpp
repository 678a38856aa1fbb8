// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/placement.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "core/base/error.h"

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

struct Case {
  std::int64_t layers = 1;
  std::int64_t ranks = 1;
  std::int64_t loops = 1;
  BalanceRecipe balance;
};

Blocks place(const Case& c) {
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

// Message of the error that placing the case throws.
std::string failure(const Case& c) {
  try {
    place(c);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_recipe);
    return error.what();
  }
  return "no error";
}

TEST_CASE("layers: an even number each, embedding with the first stage and head with the last") {
  CHECK(place({4, 1, 1, by_layers}) == Blocks{{0, 1, 2, 3, 4, 5}});
  CHECK(place({4, 1, 2, by_layers}) == Blocks{{0, 1, 2}, {3, 4, 5}});
  CHECK(place({4, 2, 2, by_layers}) == Blocks{{0, 1}, {2}, {3}, {4, 5}});
}

TEST_CASE("blocks: embedding and head count as a layer each") {
  CHECK(place({4, 1, 1, by_blocks}) == Blocks{{0, 1, 2, 3, 4, 5}});
  CHECK(place({4, 3, 1, by_blocks}) == Blocks{{0, 1}, {2, 3}, {4, 5}});
  CHECK(place({4, 2, 3, by_blocks}) == Blocks{{0}, {1}, {2}, {3}, {4}, {5}});
}

TEST_CASE("a list gives the layers of each stage") {
  CHECK(place({4, 1, 1, by_list({4})}) == Blocks{{0, 1, 2, 3, 4, 5}});
  CHECK(place({4, 3, 1, by_list({1, 2, 1})}) == Blocks{{0, 1}, {2, 3}, {4, 5}});
  CHECK(place({4, 3, 1, by_list({0, 4, 0})}) == Blocks{{0}, {1, 2, 3, 4}, {5}});
}

TEST_CASE("an uneven split is an error that names the nearest legal values") {
  CHECK(failure({10, 2, 2, by_layers}) ==
        "/pipeline/balance: \"layers\" cannot split 10 layers evenly over the 4 stages (pipeline 2 × loops 2); "
        "set /pipeline/loops to 1 or /model/layers to 8, or give the layers of each stage: [3, 3, 2, 2]");
  CHECK(failure({12, 2, 1, by_blocks}) == "no error");
  CHECK(failure({12, 2, 2, by_blocks}) ==
        "/pipeline/balance: \"blocks\" cannot split 12 layers with embedding and head evenly over the 4 stages "
        "(pipeline 2 × loops 2); set /pipeline/loops to 1 or /model/layers to 10, or give the layers of each stage: "
        "[3, 3, 3, 3]");
  CHECK(failure({11, 3, 1, by_layers}) ==
        "/pipeline/balance: \"layers\" cannot split 11 layers evenly over the 3 stages (pipeline 3 × loops 1); "
        "set /model/layers to 12, or give the layers of each stage: [4, 4, 3]");
  CHECK(failure({1, 1, 2, by_layers}) ==
        "/pipeline/balance: \"layers\" cannot split 1 layer evenly over the 2 stages (pipeline 1 × loops 2); "
        "set /pipeline/loops to 1 or /model/layers to 2");
}

TEST_CASE("a list must have an entry for each stage, none empty, and add up") {
  CHECK_THAT(failure({4, 2, 1, by_list({4})}), Catch::Contains("has 1 entries; give one for each of the 2 stages"));
  CHECK_THAT(failure({4, 2, 1, by_list({})}), Catch::Contains("has 0 entries"));
  CHECK_THAT(failure({4, 3, 1, by_list({2, 0, 2})}), Catch::Contains("stage 1 has 0 layers"));
  CHECK_THAT(failure({4, 2, 1, by_list({5, -1})}), Catch::Contains("stage 1 has -1 layers"));
  CHECK_THAT(failure({4, 2, 1, by_list({2, 3})}), Catch::Contains("[2, 3] does not add up to the 4 layers"));
  CHECK_THAT(failure({4, 2, 1, by_list({1, 2})}), Catch::Contains("does not add up"));
  CHECK_THAT(failure({4, 2, 1, by_list({0, 0})}), Catch::Contains("does not add up"));
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  CHECK_THAT(failure({4, 3, 1, by_list({largest, largest, 6})}), Catch::Contains("does not add up"));
}

TEST_CASE("more stages than blocks is an error, however many") {
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  CHECK_THAT(failure({4, 1, 7, by_blocks}), Catch::Contains("lower /pipeline/loops to at most 6"));
  CHECK_THAT(failure({4, 3, 3, by_list({})}), Catch::Contains("lower /pipeline/loops to at most 2"));
  CHECK_THAT(failure({4, 7, 1, by_layers}), Catch::Contains("lower /parallel/pipeline to at most 6"));
  CHECK_THAT(failure({4, 2, largest, by_layers}), Catch::Contains("lower /pipeline/loops to at most 3"));
  CHECK_THAT(failure({4, largest, largest, by_layers}), Catch::Contains("lower /parallel/pipeline to at most 6"));
}

// The number that follows `key` in the message, 0 without one.
std::int64_t advice(const std::string& message, const std::string& key) {
  const auto place = message.find(key + " to ");
  return place == std::string::npos ? 0 : std::stoll(message.substr(place + key.size() + 4));
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

  rc::prop("whatever an error of an uneven split proposes is legal, and no nearer number of layers is", [] {
    Case c{*rc::gen::inRange(1, 40), *rc::gen::inRange(1, 7), *rc::gen::inRange(1, 7), {}};
    c.balance = *rc::gen::arbitrary<bool>() ? by_blocks : by_layers;
    RC_PRE(c.ranks * c.loops <= c.layers + 2);
    const std::string message = failure(c);
    if (message == "no error") return;
    const std::int64_t loops = advice(message, "/pipeline/loops"), layers = advice(message, "/model/layers");
    if (loops > 0) RC_ASSERT(failure({c.layers, c.ranks, loops, c.balance}) == "no error");
    RC_ASSERT(failure({layers, c.ranks, c.loops, c.balance}) == "no error");
    const std::int64_t distance = std::max(layers - c.layers, c.layers - layers);
    for (std::int64_t nearer = std::max<std::int64_t>(1, c.layers - distance + 1); nearer < c.layers + distance;
         ++nearer)
      RC_ASSERT(failure({nearer, c.ranks, c.loops, c.balance}) != "no error");
  });
}

}  // namespace
}  // namespace llmtrain
