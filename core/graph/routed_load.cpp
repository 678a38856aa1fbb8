// SPDX-License-Identifier: Apache-2.0
#include "core/graph/routed_load.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/graph/replayed_routing.h"

namespace llmtrain {
namespace {

RoutedLoad even_load(const MixtureOfExpertsRecipe& moe, std::int64_t ranks) {
  return {.kept = expert_load(moe).kept,
          .busiest = 1 / static_cast<double>(ranks),
          .fullest = static_cast<double>(moe.top_k) / static_cast<double>(moe.experts)};
}

}  // namespace

RoutedLoad routed_load(const Graph& graph, std::int64_t layer, const PassSetting& setting) {
  const MixtureOfExpertsRecipe& moe = *graph.model.moe;
  const std::int64_t ranks = setting.shards.expert, tokens = setting.batch * setting.sequence_length;
  if (graph.routing == nullptr) return even_load(moe, ranks);
  const ExpertShares& shares = graph.routing->typical_shares(layer);
  const auto limit = expert_limit(moe, tokens);
  const double most = limit ? static_cast<double>(*limit) / static_cast<double>(tokens) : 1;
  std::vector<double> of_ranks(static_cast<std::size_t>(ranks), 0);
  RoutedLoad load;
  for (std::size_t expert = 0; expert < shares.size(); ++expert) {
    const double kept = std::min(shares[expert], most);
    // Each rank holds equally many consecutive experts.
    of_ranks[expert * of_ranks.size() / shares.size()] += kept;
    load.kept += kept;
    load.fullest = std::max(load.fullest, shares[expert]);
  }
  load.idle = std::ranges::count(of_ranks, 0.0);
  load.busiest = load.kept > 0 ? *std::ranges::max_element(of_ranks) / load.kept : 1 / static_cast<double>(ranks);
  return load;
}

}  // namespace llmtrain
