// SPDX-License-Identifier: Apache-2.0
#include "core/graph/values.h"

#include <rapidcheck/catch.h>
#include <algorithm>
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "core/graph/operators/held_values.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

using Values = std::vector<std::size_t>;

// Blocks that make up to two values each, and read any of those that were made before.
Graph random_graph() {
  Graph graph;
  graph.blocks.resize(*rc::gen::inRange<std::size_t>(1, 12));
  for (Block& block : graph.blocks) {
    for (std::size_t value = 0; value < graph.values.size(); ++value)
      if (*rc::gen::inRange(0, 4) == 0) block.inputs.push_back(value);
    for (int made = *rc::gen::inRange(0, 3); made > 0; --made) {
      block.outputs.push_back(graph.values.size());
      graph.values.push_back({.name = std::to_string(graph.values.size()), .features = {8}});
    }
  }
  return graph;
}

bool makes(const Graph& graph, std::size_t value, std::size_t begin, std::size_t end) {
  return std::any_of(graph.blocks.begin() + static_cast<std::ptrdiff_t>(begin),
                     graph.blocks.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](const Block& block) { return std::ranges::count(block.outputs, value) > 0; });
}

bool reads(const Graph& graph, std::size_t value, std::size_t begin) {
  return std::any_of(graph.blocks.begin() + static_cast<std::ptrdiff_t>(begin), graph.blocks.end(),
                     [&](const Block& block) { return std::ranges::count(block.inputs, value) > 0; });
}

}  // namespace

TEST_CASE("values across cuts") {
  rc::prop("a value crosses every cut behind its block and before or at its last reader, and no other", [] {
    const Graph graph = random_graph();
    std::vector<std::size_t> cuts;
    for (std::size_t block = 0; block <= graph.blocks.size(); ++block) {
      Values expected;
      for (std::size_t value = 0; value < graph.values.size(); ++value)
        if (makes(graph, value, 0, block) && reads(graph, value, block)) expected.push_back(value);
      RC_ASSERT(values_across(graph, block) == expected);
      if (*rc::gen::arbitrary<bool>()) cuts.push_back(block);
    }
    const std::vector<Values> across = values_across(graph, cuts);
    RC_ASSERT(across.size() == cuts.size());
    for (std::size_t cut = 0; cut < cuts.size(); ++cut) RC_ASSERT(across[cut] == values_across(graph, cuts[cut]));
  });
}

TEST_CASE("a decoder's blocks are a chain of values of the model's width") {
  const Graph graph = Graph::build(test::gpt2_model(4, 64, 4));
  CHECK(values_across(graph, 0).empty());
  CHECK(values_across(graph, graph.blocks.size()).empty());
  for (std::size_t block = 1; block < graph.blocks.size(); ++block) {
    CHECK(values_across(graph, block) == graph.blocks[block].inputs);
    CHECK(graph.blocks[block].inputs == graph.blocks[block - 1].outputs);
    CHECK(graph.values[block - 1].features == std::vector<std::int64_t>{64});
  }
  CHECK(graph.values.front().name == "embedding");
  CHECK(graph.values.back().name == "layers.3");
  PassSetting setting;
  setting.tokens.batch = 3, setting.tokens.sequence_length = 32;
  CHECK(value_bytes(graph.values.front(), setting) == 4 * 3 * 32 * 64);
  CHECK(held_values({graph, setting}, Values{1, 2}, Values{0}, Values{2}).empty());
}

TEST_CASE("what several blocks keep is one tensor, and what only later ones read is alive beside each") {
  Graph graph = Graph::build(test::gpt2_model(4, 64, 4));
  // The second and the third layer read what the first one makes, and the fourth what these two make.
  graph.blocks[3].inputs = {1};
  graph.blocks[4].inputs = {3, 2};
  PassSetting setting;
  setting.tokens.batch = 2, setting.tokens.sequence_length = 16;
  const double value = 4 * 2 * 16 * 64;
  const std::vector<HeldValues> held = held_values({graph, setting}, Values{1, 2, 3, 4}, Values{0}, Values{4});
  REQUIRE(held.size() == 4);
  CHECK(held[0].repeated + held[1].repeated + held[3].repeated == 0);
  CHECK(held[2].repeated == value);
  // The second layer keeps what the third one reads; the third one has what the second one makes, which nobody keeps.
  CHECK(held[1].beside_forward == 0);
  CHECK(held[1].beside_backward == value);
  CHECK(held[2].beside_forward == value);
  CHECK(held[2].beside_backward == value);
  CHECK(held[0].beside_backward + held[3].beside_backward + held[0].beside_forward + held[3].beside_forward == 0);
  // A stage of the third layer alone passes on what the second one makes.
  const std::vector<HeldValues> alone = held_values({graph, setting}, Values{3}, Values{1, 2}, Values{2, 3});
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].repeated == 0);
  CHECK(alone[0].beside_forward == value);
}

}  // namespace llmtrain
