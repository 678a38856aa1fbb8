// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/split_prices.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/planner/exchange_prices.h"
#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {
namespace {

// Of a step, whatever it takes of memory.
double step_seconds(const Partition& partition, const Schedule& schedule, const ClusterProfile& profile) {
  StepMemory memory;
  memory.stages.resize(partition.stages.size());
  return simulate(schedule, make_step_costs(partition, profile), memory).step_seconds;
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
  std::stable_sort(priced.begin(), priced.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  partition = priced.front().second;
  partition.expert_splits.clear();
  for (const auto& [seconds, split] : priced) partition.expert_splits.push_back(split.mesh.expert_tensor);
}

}  // namespace llmtrain
