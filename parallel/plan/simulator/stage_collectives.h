// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "parallel/plan/simulator/data_stream.h"
#include "parallel/plan/simulator/step_costs.h"

namespace llmtrain {

// What the instructions of a stage occupy its rank's wires with, from the stage's costs.

inline WireShares pass_wires(const PassCost& cost) { return wire_shares(cost.wires, cost.seconds); }

inline DataCollective gather_of(const StageCost& cost, std::size_t instruction) {
  return {cost.gather_seconds, wire_shares(cost.gather_wires, cost.gather_seconds), instruction};
}

inline DataCollective reduction_of(const StageCost& cost, bool is_last) {
  const double seconds = cost.reduce_seconds + (is_last ? cost.last_reduce_seconds : 0);
  WireSeconds wires = cost.reduce_wires;
  if (is_last) wires += cost.last_reduce_wires;
  return {seconds, wire_shares(wires, seconds), 0};
}

}  // namespace llmtrain
