// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain {

// One layout of the recipe's model and batch, as simulated.
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
  std::int64_t layouts = 0;            // considered: legal by their sizes
  std::int64_t estimated = 0;          // of them, those that no bounds ruled out
  std::int64_t simulated = 0;          // with the recipe's own layout and the neighbours of the best
};

// Finds layouts of the recipe's model, batch and world: a mesh with context and expert ranks, ZeRO stage, schedule,
// loops and balance, micro-batch, recompute, and FP8 levels up to the recipe's own; kernels and overlap stay as they
// are. Bounds of time and memory rule out most of them (layout_bounds.h); the others are estimated
// (layout_estimates.h), and those that may be the fastest or of little memory simulated, with the recipe itself. From
// the best one it goes on to neighbours as long as one of these is better. More is on the host than the recipe says
// (more_on_host()) where nothing fits otherwise, or where the best one then recomputes less and is faster, of the
// stages that leave as many staying as have room (keep_more_stages()); likewise memory.chunks of bodies, the fewest of
// 2, 4 and so on up to 64 that fit, or those that are faster. Throws Error(bad_recipe) as make_mesh() does.
SearchResult search_layouts(const Recipe& recipe, const ClusterProfile& profile);

}  // namespace llmtrain
