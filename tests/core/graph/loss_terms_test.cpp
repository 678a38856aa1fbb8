// SPDX-License-Identifier: Apache-2.0
// Which terms the blocks of a model raise.
#include "core/graph/loss_term.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/core/graph/models.h"
#include "tests/core/graph/two_headed_graph.h"

namespace llmtrain::test {
namespace {

// "name/block coefficient" of each, behind "*" where it is of rows.
std::vector<std::string> in_words(const Graph& graph) {
  std::vector<std::string> words;
  for (const LossTerm& term : graph.losses)
    words.push_back((term.is_of_rows ? "*" : "") + term.name + "/" + std::to_string(term.block) + " " +
                    std::to_string(term.coefficient).substr(0, 4));
  return words;
}

// Layers 1 and 3, which are blocks 2 and 4, have experts.
ModelRecipe half_mixed() {
  ModelRecipe model = gpt2_model(4, 64, 4);
  model.moe = MixtureOfExpertsRecipe{.experts = 8, .every = 2, .ffn_hidden_size = 96};
  model.moe->balance_coefficient = 0.25;
  model.moe->z_coefficient = 0.5;
  return model;
}

}  // namespace

TEST_CASE("A decoder has one term, which its head raises") {
  const Graph graph = Graph::build(gpt2_model(2, 64, 4));
  CHECK(in_words(graph) == std::vector<std::string>{"*loss/3 1.00"});
  CHECK(graph.blocks.back().losses == std::vector<std::size_t>{0});
  CHECK(graph.blocks[1].losses.empty());
}

TEST_CASE("Routers raise the terms that have a coefficient, behind those of rows") {
  ModelRecipe model = half_mixed();
  const Graph graph = Graph::build(model);
  CHECK(in_words(graph) == std::vector<std::string>{"*loss/5 1.00", "balance_loss/2 0.25", "z_loss/2 0.50",
                                                    "balance_loss/4 0.25", "z_loss/4 0.50"});
  CHECK(graph.row_losses().size() == 1);
  CHECK(graph.blocks[4].losses == std::vector<std::size_t>{3, 4});
  CHECK(graph.loss_coefficient(4, loss_names::balance) == 0.25);
  CHECK(graph.loss_coefficient(4, loss_names::head) == 0);
  CHECK(graph.loss_coefficient(3, loss_names::balance) == 0);

  model.moe->balance_loss = BalanceLoss::none;
  CHECK(in_words(Graph::build(model)) == std::vector<std::string>{"*loss/5 1.00", "z_loss/2 0.50", "z_loss/4 0.50"});
  model.moe->z_coefficient = 0;
  CHECK(in_words(Graph::build(model)) == std::vector<std::string>{"*loss/5 1.00"});
}

TEST_CASE("A term of rows that is raised later keeps the numbers of those before it") {
  const Graph graph = two_headed_graph(half_mixed());
  CHECK(in_words(graph).front() == "*loss/5 1.00");
  CHECK(in_words(graph)[1] == "*second/6 0.30");
  CHECK(graph.row_losses().size() == 2);
  CHECK(graph.blocks[6].losses == std::vector<std::size_t>{1});
  CHECK(graph.blocks[4].losses == std::vector<std::size_t>{4, 5});
  Graph other = graph;
  CHECK_THROWS(other.raise({.name = "third", .block = 6, .coefficient = 0}));
}

}  // namespace llmtrain::test
