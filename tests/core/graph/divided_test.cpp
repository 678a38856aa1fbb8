// SPDX-License-Identifier: Apache-2.0
// What ranks must divide: the rules of recipes ask for it by keys, and blocks have it in the splits of parameters.
#include <catch2/catch.hpp>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "core/graph/sharding.h"
#include "core/recipe/rules/rules.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

std::vector<ModelRecipe> models() {
  std::vector<ModelRecipe> models;
  for (const std::int64_t heads : {8, 12})
    for (const std::int64_t kv_heads : {2, 4})
      for (const std::int64_t width : {24, 40}) {
        ModelRecipe model = test::gpt2_model(2, 48, heads);
        model.kv_heads = kv_heads;
        model.ffn_hidden_size = width;
        models.push_back(model);
        model.moe = MixtureOfExpertsRecipe{.experts = 6, .every = 2, .ffn_hidden_size = 12};
        models.push_back(model);
        // Without a dense layer, whose width a rule asks for all the same.
        model.ffn_hidden_size = 240;
        model.moe = MixtureOfExpertsRecipe{.experts = 8, .ffn_hidden_size = 9, .shared_experts = kv_heads};
        models.push_back(model);
      }
  return models;
}

bool is_refused(const ModelRecipe& model, const ShardDegrees& degrees) {
  Recipe recipe;
  recipe.model = model;
  recipe.batch = {.global = 1, .micro = 1, .sequence_length = 1};
  recipe.parallel.tensor = degrees.tensor;
  recipe.parallel.expert = degrees.expert;
  recipe.parallel.expert_tensor = degrees.expert_tensor;
  const Document unwritten;
  Problems problems(unwritten);
  check_rules(recipe, {}, problems, layout_rules());
  std::istringstream lines(problems.report(""));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("/parallel/tensor") || line.starts_with("/parallel/expert")) return true;
  return false;
}

}  // namespace

TEST_CASE("rules refuse the degrees that a block's parameters cannot be divided by, and no others") {
  std::int64_t refused = 0, accepted = 0;
  for (const ModelRecipe& model : models()) {
    const Graph graph = Graph::build(model);
    const std::int64_t most = model.moe ? 8 : 1;
    for (std::int64_t tensor = 1; tensor <= 12; ++tensor)
      for (std::int64_t expert = 1; expert <= most; ++expert)
        for (std::int64_t expert_tensor = 1; expert_tensor <= most; ++expert_tensor) {
          const ShardDegrees degrees{tensor, expert, expert_tensor};
          const Parameter* const parameter = undivided(graph, degrees);
          INFO(tensor << " tensor, " << expert << " expert, " << expert_tensor << " expert tensor ranks, "
                      << model.heads << " and " << model.kv_heads << " heads");
          if (parameter != nullptr) INFO(parameter->name);
          CHECK(is_refused(model, degrees) == (parameter != nullptr));
          ++(parameter != nullptr ? refused : accepted);
        }
  }
  CHECK((refused > 100 && accepted > 100));
}

TEST_CASE("expert ranks divide what all layers have of experts") {
  ModelRecipe model = test::gpt2_model(2, 48, 4);
  CHECK(common_experts(Graph::build(model)) == 0);
  model.moe = MixtureOfExpertsRecipe{.experts = 12, .ffn_hidden_size = 12};
  Graph graph = Graph::build(model);
  CHECK(common_experts(graph) == 12);
  model.moe->experts = 8;
  const Graph other = Graph::build(model);
  for (const std::size_t index : other.blocks[2].parameters) graph.parameters[index] = other.parameters[index];
  CHECK(common_experts(graph) == 4);
  CHECK(undivided(graph, {.expert = 4}) == nullptr);
  REQUIRE(undivided(graph, {.expert = 8}) != nullptr);
  CHECK(undivided(graph, {.expert = 8})->name == "layers.0.ffn.experts.up.weight");
}

TEST_CASE("layers may hold different numbers of copies of their key heads") {
  Graph graph = Graph::build(test::llama3_8b());
  graph.parameters[graph.index_of(graph.parameter(3, "attention.key.weight"))].split.units = 2;
  graph.blocks[3].alike = 3;  // like no other any more
  CHECK(copy_counts(graph, 2).empty());
  CHECK(copy_counts(graph, 8) == std::vector<std::int64_t>{4});
  CHECK(copy_counts(graph, 16) == std::vector<std::int64_t>{2, 8});
}

}  // namespace llmtrain
