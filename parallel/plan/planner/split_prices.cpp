// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/split_prices.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/graph/operators/operators.h"
#include "core/graph/operators/routed_load.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {
namespace {

// The cheapest first; of equal prices in the order that they have.
template <class Thing>
void sort_by_price(std::vector<std::pair<double, Thing>>& priced) {
  std::stable_sort(priced.begin(), priced.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
}

std::size_t first_block_with_experts(const Graph& graph) {
  std::size_t block = 0;
  while (graph.blocks[block].experts() == nullptr) ++block;
  return block;
}

// Prices one layer with experts, forward and backward, whose experts have micro-batches of any size.
class ExchangePrices {
 public:
  ExchangePrices(const Partition& partition, const ClusterProfile& profile)
      : priced_(partition, profile),
        block_(first_block_with_experts(*partition.graph)),
        load_(routed_load(*partition.graph, block_, tokens(), priced_.setting().shards.expert)) {
    for (const Operator& item : priced_.operators.of(block_))
      if (item.module != OperatorModule::experts) others_.push_back(item);
  }

  // Tokens of a whole micro-batch.
  std::int64_t tokens() const { return priced_.setting().tokens.all(); }
  // Rows that a rank sends to the fullest expert.
  std::int64_t fullest(std::int64_t tokens) const {
    return static_cast<std::int64_t>(load_.fullest * static_cast<double>(tokens) / ranks_with_tokens());
  }
  std::int64_t tokens_with_fullest(double rows) const {
    return std::max<std::int64_t>(1, std::llround(rows / load_.fullest * ranks_with_tokens()));
  }

  double seconds(const ExchangeMethod& method, std::int64_t tokens) const {
    PassSetting setting = priced_.setting();
    setting.tokens.batch = 1;
    setting.tokens.sequence_length = tokens;
    if (!setting.exchange.sends_tokens_once)
      setting.exchange.node_ranks = relaying_ranks(priced_.mesh(), method.all_to_all);
    setting.exchange.parts = method.parts;
    const PricedLayout priced(priced_.partition, priced_.profile, setting);
    // With the layer's other operators: the host's work for many parts may hide behind what the device has to do.
    OperatorList operators = others_;
    for (const Operator& item : priced.operators.of(block_))
      if (item.module == OperatorModule::experts) operators.push_back(item);
    const StageCost cost = block_cost(priced, operators, priced.operators.recompute_of(block_));
    return cost.forward.seconds + cost.backward.seconds;
  }

  void order(std::vector<ExchangeMethod>& methods, std::int64_t tokens) const {
    std::vector<std::pair<double, ExchangeMethod>> priced;
    for (const ExchangeMethod& method : methods) priced.emplace_back(seconds(method, tokens), method);
    sort_by_price(priced);
    methods.clear();
    for (const auto& [price, method] : priced) methods.push_back(method);
  }

 private:
  double ranks_with_tokens() const {
    return static_cast<double>(priced_.setting().shards.tensor * priced_.setting().tokens.context);
  }

  PricedLayout priced_;
  std::size_t block_;
  RoutedLoad load_;
  OperatorList others_;  // of the layer, in micro-batches as planned
};

// Prices the methods of a partition whose exchange between expert ranks is open, puts the cheapest one of each bucket
// first, and plans with that of the bucket which the planned routing has.
void order_by_price(Partition& partition, const ClusterProfile& profile) {
  ExchangeMethods& exchange = partition.exchange;
  if (!exchange.are_open()) return;
  const ExchangePrices prices(partition, profile);
  const std::size_t planned = exchange.bucket_of(prices.fullest(prices.tokens()));
  for (std::size_t bucket = 0; bucket < exchange.of_buckets.size(); ++bucket) {
    const double middle = (static_cast<double>(bucket) + 0.5) * static_cast<double>(exchange.bucket_rows);
    const std::int64_t tokens = bucket == planned ? prices.tokens() : prices.tokens_with_fullest(middle);
    prices.order(exchange.of_buckets[bucket], tokens);
  }
  exchange.planned = exchange.of_buckets[planned].front();
}

// How long a step takes, whatever memory it needs.
double step_seconds(const Partition& partition, const Schedule& schedule, const ClusterProfile& profile) {
  StepMemory memory;
  memory.stages.resize(partition.stages.size());
  return simulate(schedule, make_step_costs({partition, profile}), memory).step_seconds;
}

}  // namespace

void settle_by_price(Partition& partition, const ClusterProfile& profile) {
  if (partition.expert_splits.empty()) return order_by_price(partition, profile);
  // Splits move other tensors by the same instructions.
  const Layout layout(partition);
  std::vector<std::pair<double, Partition>> priced;
  for (const std::int64_t ranks : partition.expert_splits) {
    Partition split = partition.split_by(ranks);
    order_by_price(split, profile);
    const double seconds = step_seconds(split, layout.schedule(), profile);
    priced.emplace_back(seconds, std::move(split));
  }
  sort_by_price(priced);
  partition = priced.front().second;
  partition.expert_splits.clear();
  for (const auto& [seconds, split] : priced) partition.expert_splits.push_back(split.mesh.expert_tensor);
}

}  // namespace llmtrain
