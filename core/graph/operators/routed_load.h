// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/pass_setting.h"

namespace llmtrain {

// How the choices of a micro-batch's tokens fall on the experts of a layer and on the ranks that hold them, as a plan
// expects it: evenly, or as in the routing that the model replays.
struct RoutedLoad {
  double kept = 0;                 // choices per token within their expert's capacity
  double busiest = 0;              // of these the share at the rank with the most; even: 1 ÷ ranks
  double fullest = 0;              // share of the tokens that choose the fullest expert; even: top_k ÷ experts
  std::vector<double> of_ranks{};  // as busiest, of every rank; none: even
};

// The load of a micro-batch of so many tokens, where so many `ranks` share the experts of the block, which must have
// some.
RoutedLoad routed_load(const Graph& graph, std::size_t block, std::int64_t tokens, std::int64_t ranks);

// Hierarchical exchanges take rows through the ranks with the same place on their nodes: which shares of the kept
// choices of a micro-batch's tokens are at such ranks. Even: 1 ÷ the ranks of a node.
struct PlaceShares {
  double of_busiest = 0;  // at the place of the busiest rank
  double fullest = 0;     // at the place with the most
};

// `inside` consecutive ones of the ranks that share the experts are on a node; it divides these ranks.
PlaceShares place_shares(const RoutedLoad& load, std::int64_t inside);

// Ranks without tokens, of those that share the block's experts: a run rounds shares to whole tokens. Of a model that
// replays.
std::int64_t idle_ranks(const Graph& graph, std::size_t block, const TokenSetting& tokens, const ShardDegrees& shards);

}  // namespace llmtrain
