// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/layout/mesh.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

// Calls `visit` with every layout that a search considers: the recipe with other degrees (of experts where it has them,
// but as many context ranks), ZeRO stage, schedule, loops,
// micro-batch, recompute and FP8 level for a world of the same size. Layouts that are impossible by their sizes are
// skipped; make_mesh() may refuse some of the others.
void for_each_layout(const Recipe& recipe, const Mesh& mesh, const std::function<void(const Recipe&)>& visit);

// One layout of the recipe's model and batch, as estimated or simulated.
struct SearchCandidate {
  Recipe recipe;
  double step_seconds = 0;
  double peak_bytes = 0;  // of the fullest rank
  bool is_tight = false;  // fits by less than plans err
};

// Which of the candidates to recommend, by first_choice(): the fastest, unless that one is tight and one with room is
// about as fast.
std::optional<std::size_t> best_of(const std::vector<SearchCandidate>& candidates, const Accuracy& accuracy);

struct SearchResult {
  std::vector<SearchCandidate> front;  // Pareto front of time and memory, fastest first; empty if nothing fits
  std::optional<std::size_t> best;     // best_of() the front
  std::int64_t layouts = 0;            // legal layouts
  std::int64_t fitting = 0;            // of them, those that fit by the estimate of their memory
  std::int64_t simulated = 0;
};

// Walks the legal layouts of the recipe's model, batch and world: mesh with expert ranks, ZeRO stage, schedule and
// loops, micro-batch, recompute, and FP8 levels up to the recipe's own; context ranks, kernels and offload stay as they
// are. All are priced; those that fit the device by an optimistic estimate of their memory are ranked by an optimistic
// estimate of their time, and the best are simulated. Throws Error(bad_recipe) as make_mesh() does.
SearchResult search_layouts(const Recipe& recipe, const ClusterProfile& profile);

}  // namespace llmtrain
