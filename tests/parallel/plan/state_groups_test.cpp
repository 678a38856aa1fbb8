// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/state_groups.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "core/graph/sharding.h"
#include "parallel/layout/layout.h"

namespace llmtrain {
namespace {

// Layers of two kinds by turns, of which two are in other precision or frozen than those that are otherwise alike.
Recipe mixed_recipe() {
  Recipe recipe;
  ModelRecipe& model = recipe.model;
  model.layers = model.hidden_size = 8;
  model.heads = model.kv_heads = model.max_sequence_length = 4;
  model.head_dim = 2;
  model.ffn_hidden_size = model.vocab_size = 16;
  model.moe = MixtureOfExpertsRecipe{.experts = 4, .every = 2, .ffn_hidden_size = 8};
  recipe.precision.fp8_level = Fp8Level::o2;
  recipe.precision.high_precision.first_layers = 1;
  recipe.training.freeze = {"layers.5.*"};
  recipe.batch = {.global = 8, .micro = 1};
  recipe.pipeline.loops = 2;
  return recipe;
}

bool is_in_group(const Parameter& parameter, const StateGroup& group) {
  return parameter.is_frozen == group.is_frozen && (parameter.takes_fp8() && !parameter.is_frozen) == group.is_fp8 &&
         parameter.has_expert_axis == (group.kind == StateGroup::Kind::experts);
}

TEST_CASE("a stage's groups hold what its blocks read, each parameter once") {
  const Partition partition = Partition::on_mesh(mixed_recipe(), {.tensor = 2, .data = 2, .pipeline = 2});
  const Graph& graph = *partition.graph;
  std::set<bool> fp8, frozen, experts;
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
    std::vector<std::size_t> held, read;
    for (const StateGroup& group : partition.groups[stage]) {
      held.insert(held.end(), group.parameters.begin(), group.parameters.end());
      REQUIRE(group.sizes.size() == group.parameters.size());
      for (std::size_t i = 0; i < group.sizes.size(); ++i) {
        const Parameter& parameter = graph.parameters[group.parameters[i]];
        CAPTURE(stage, parameter.name);
        CHECK(is_in_group(parameter, group));
        CHECK(group.is_shared() == (parameter.readers.size() > 1));
        CHECK(group.sizes[i] == local_elements(parameter, shard_degrees(partition.mesh)));
      }
      fp8.insert(group.is_fp8), frozen.insert(group.is_frozen), experts.insert(group.kind == StateGroup::Kind::experts);
    }
    for (const std::size_t block : partition.stages[stage].blocks) {
      read.insert(read.end(), graph.blocks[block].parameters.begin(), graph.blocks[block].parameters.end());
      for (const Block::Shared& shared : graph.blocks[block].shared) read.push_back(shared.parameter);
    }
    std::ranges::sort(held);
    std::ranges::sort(read);
    CHECK(held == read);
  }
  // The recipe has groups of every kind.
  CHECK((fp8.size() == 2 && frozen.size() == 2 && experts.size() == 2));
}

TEST_CASE("frozen matrices in NF4 are groups of their own, of fewer bytes and nothing that is trained") {
  Recipe recipe = mixed_recipe();
  recipe.precision = {.compute = DataType::bf16};
  recipe.training.freeze = {"*norm*"};
  recipe.model.lora = LoraRecipe{.rank = 2, .base = LoraBase::nf4};
  const Partition partition = Partition::on_mesh(recipe, {.tensor = 2, .data = 2, .pipeline = 2});
  double packed = 0, frozen = 0;
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
    for (const StateGroup& group : partition.groups[stage]) {
      for (const std::size_t index : group.parameters)
        CHECK(partition.graph->parameters[index].is_packed == group.is_packed);
      CHECK(group.types.weight_bytes() == (group.is_packed ? recipe.model.lora->nf4_bytes() : 2));
      if (group.is_packed) CHECK(group.types.gradient_bytes() + group.types.moment_bytes() == 0);
      (group.is_packed ? packed : frozen) += static_cast<double>(group.is_frozen ? group.elements() : 0);
    }
  }
  // Four matrices of attention with as many heads of keys, and the network's, on one of two ranks; whole experts.
  CHECK(packed == 8 * (4 * 64.0) / 2 + 4 * (2 * 128.0) / 2 + 4 * 4 * (2 * 64.0));
  CHECK(frozen > 0);
}

}  // namespace
}  // namespace llmtrain
