// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/graph/fp8_products.h"
#include "core/parameters/parameter_store.h"
#include "core/recipe/recipe.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/local/local_world.h"
#include "parallel/layout/layout.h"
#include "parallel/shard/rank_groups.h"
#include "parallel/shard/states/gradient_fallback.h"
#include "parallel/shard/states/sharded_parameters.h"

namespace llmtrain::test {

// A small model with biases and learned positions, whose elements no number of ranks divides.
Recipe small_recipe();
std::shared_ptr<const Layout> layout_of(Recipe recipe, int ranks);

// A number of ranks, and how they share the one stage's states.
struct ShardCase {
  int ranks;
  std::int64_t zero_stage;
  std::int64_t shard_ranks;  // ranks ÷ this many copies of the shards
  DataType compute = DataType::fp32;

  std::string in_words() const;
  Recipe recipe() const;
};
// Every ZeRO stage on 1, 2 and 4 ranks, and with copies of the shards.
std::vector<ShardCase> shard_cases();

// The group in question on the layout's one stage: the matrices that an FP8 level stores in its own way or Muon trains,
// else the first group.
const StateGroup& group_of(const Layout& layout);

// The parameters of that group on one rank.
struct ShardRank {
  ShardRank(Communicator& communicator, const Layout& layout, const Fp8History* history = nullptr)
      : groups(communicator, layout),
        group(group_of(layout)),
        graph(layout.graph()),
        store(layout.graph(), group.parameters, groups.shard_place()),
        fallback(fp8_matrices(layout.graph()), layout.recipe().precision.high_precision.fallback_steps),
        parameters(layout.graph(), store, group,
                   {.optimizer = layout.recipe().training.optimizer,
                    .gradient_scaling = layout.recipe().precision.gradient_scaling,
                    .rounding_seed = layout.recipe().precision.stochastic_rounding ? std::optional(layout.recipe().seed)
                                                                                   : std::nullopt,
                    .fp8_history = history,
                    .gradient_fallback = layout.recipe().precision.gradients_may_fall_back() ? &fallback : nullptr},
                   groups) {}

  RankGroups groups;
  const StateGroup& group;
  const Graph& graph;
  ParameterStore store;
  GradientFallback fallback;
  ShardedParameters parameters;
};

// Runs `work` on threads as ranks and gives what each returned; the caller checks it, because Catch2 has one thread.
template <class Work>
auto on_ranks(const Recipe& recipe, int ranks, const Work& work, const Fp8History* history = nullptr) {
  const std::shared_ptr<const Layout> layout = layout_of(recipe, ranks);
  std::vector<std::invoke_result_t<Work, ShardRank&>> results(static_cast<std::size_t>(ranks));
  LocalWorld(ranks).run([&](Communicator& communicator) {
    ShardRank rank(communicator, *layout, history);
    results[static_cast<std::size_t>(communicator.rank())] = work(rank);
  });
  return results;
}

// Flat values of all the store's elements, by the index in it.
using Values = std::function<double(std::int64_t)>;
at::Tensor flat_of(std::int64_t elements, const Values& values);

// Writes gradients of all parameters but `skipped` as a backward does: what is there is overwritten, or added to.
void write_gradients(ShardRank& rank, const at::Tensor& flat, const std::string& skipped = "");
// Writes, reduces where other ranks hold the same parameters, and collects.
void reduce_gradients(ShardRank& rank, const at::Tensor& flat, const std::string& skipped = "");

// Lets the host know how many sums have saturated.
void read_saturated(ShardRank& rank);

// The whole flat weights as the modules see them.
at::Tensor gathered_weights(ShardRank& rank);

// One rank's part of something flat: elements [begin, end).
struct Part {
  FlatInterval place;
  at::Tensor values;
};
// Joins the parts of ranks; where several have an element they must have the same. Checks that none is missing.
at::Tensor join(const std::vector<Part>& parts, std::int64_t elements);

}  // namespace llmtrain::test
