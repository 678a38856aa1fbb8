// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// Plans of a recipe that differ in what layers recompute. Of each rank, layers are taken in the order of bytes per
// second of recomputation, as in the greedy solution of a knapsack with several choices per item (Sinha and Zoltners,
// 1979), whose last one is the cheapest that is enough; the plan of all of them corrects the estimate, and nothing is
// taken that is slower than a word for all layers would be.
class LimitChooser {
 public:
  // `recipe` has no memory.limit; `cluster` outlives this. Throws Error where nothing can be planned.
  LimitChooser(Recipe recipe, const ClusterProfile& cluster, std::int64_t devices_per_node);

  // The fastest whose ranks need at most `limit` bytes; none where nothing is found.
  std::optional<Recipe> within(double limit);
  // That needs least of what is tried: a word for all layers, but for single ones that need less with another.
  Recipe smallest() { return with(least_layers()); }
  // That recomputes nothing.
  const Plan& largest() { return uniform(Recompute::none); }
  // No choice is faster, as far as words for all layers tell.
  double least_seconds();
  Plan planned(const Recipe& recipe) const;

 private:
  using Layers = std::vector<Recompute>;  // by layer of the model

  // What a layer recomputes instead of nothing: what that spares of the memory of its rank, and what it costs of the
  // time of each of its micro-batches.
  struct Change {
    std::size_t layer = 0;
    Recompute to{};
    double bytes = 0, seconds = 0;
  };

  // The plan of a word for all layers, made once.
  const Plan& uniform(Recompute word);
  Recipe with(Recompute word) const;
  Recipe with(const Layers& layers) const;
  void price_layers();
  void price_word(Recompute word);
  // The changes of one rank that spare at least `bytes`, or all where that is too much.
  void choose(std::size_t rank, double bytes, Layers& layers) const;
  std::optional<Layers> mixed(double limit);
  // Takes back what is not needed after all, layer by layer, or changes it for something faster.
  void quicken(double limit, Layers& layers) const;
  const Layers& least_layers();
  // What is recomputed need not travel to the host and back.
  bool none_is_fastest() const { return !recipe_.memory.offload.activations; }

  Recipe recipe_;
  const ClusterProfile& cluster_;
  std::int64_t devices_per_node_;
  std::vector<Recompute> words_;
  std::map<Recompute, Plan> uniform_;
  std::optional<Layers> least_layers_;
  std::map<std::size_t, std::vector<Change>> changes_;  // by rank, in the order of layers; from "none"
};

}  // namespace llmtrain
