// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/routed_load.h"

#include <algorithm>
#include <cstddef>
#include <limits>
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

RoutedLoad routed_load(const Graph& graph, std::size_t block, std::int64_t tokens, std::int64_t ranks) {
  const MixtureOfExpertsRecipe& moe = *graph.blocks[block].experts();
  if (graph.routing == nullptr) return even_load(moe, ranks);
  const ExpertShares& shares = graph.routing->typical_shares(graph.blocks[block].layer()->index);
  const auto limit = expert_limit(moe, tokens);
  const double most = limit ? static_cast<double>(*limit) / static_cast<double>(tokens) : 1;
  RoutedLoad load;
  std::vector<double>& of_ranks = load.of_ranks;
  of_ranks.assign(static_cast<std::size_t>(ranks), 0);
  for (std::size_t expert = 0; expert < shares.size(); ++expert) {
    const double kept = std::min(shares[expert], most);
    // Each rank holds equally many consecutive experts.
    of_ranks[expert * of_ranks.size() / shares.size()] += kept;
    load.kept += kept;
    load.fullest = std::max(load.fullest, shares[expert]);
  }
  if (load.kept == 0) return {.busiest = 1 / static_cast<double>(ranks), .fullest = load.fullest};
  for (double& share : of_ranks) share /= load.kept;
  load.busiest = *std::ranges::max_element(of_ranks);
  return load;
}

PlaceShares place_shares(const RoutedLoad& load, std::int64_t inside) {
  if (load.of_ranks.empty()) return {1 / static_cast<double>(inside), 1 / static_cast<double>(inside)};
  std::vector<double> of_places(static_cast<std::size_t>(inside), 0);
  for (std::size_t rank = 0; rank < load.of_ranks.size(); ++rank)
    of_places[rank % of_places.size()] += load.of_ranks[rank];
  const auto busiest = std::ranges::max_element(load.of_ranks) - load.of_ranks.begin();
  return {of_places[static_cast<std::size_t>(busiest % inside)], *std::ranges::max_element(of_places)};
}

std::int64_t idle_ranks(const Graph& graph, std::size_t block, const TokenSetting& tokens, const ShardDegrees& shards) {
  const MixtureOfExpertsRecipe& moe = *graph.blocks[block].experts();
  // Tokens whose rows meet at the experts: of each rank those that it routes.
  const std::int64_t senders = shards.expert * shards.expert_tensor;
  const std::int64_t meeting = std::max<std::int64_t>(1, tokens.all() * senders / (shards.tensor * tokens.context));
  const auto counts =
      counts_by_share(graph.routing->typical_shares(graph.blocks[block].layer()->index), meeting, moe.top_k);
  const std::int64_t limit = expert_limit(moe, tokens.all()).value_or(std::numeric_limits<std::int64_t>::max());
  std::vector<std::int64_t> of_ranks(static_cast<std::size_t>(shards.expert), 0);
  for (std::size_t expert = 0; expert < counts.size(); ++expert)
    of_ranks[expert * of_ranks.size() / counts.size()] += std::min(counts[expert], limit);
  return std::ranges::count(of_ranks, 0);
}

}  // namespace llmtrain
