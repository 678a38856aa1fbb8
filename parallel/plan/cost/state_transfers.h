// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {

// One collective of the data-parallel ranks over gradients or weights of a stage.
struct StateTransfer {
  enum class When {
    reduction,       // part of each of the stage's reductions
    last_reduction,  // only of the step's last one (StateGroup::is_reduced_last)
    gather,          // part of each of its gathers
  };
  When when{};
  Collective collective{};
  std::string_view tensors;  // as in CommunicationEntry
  RankGroup ranks;
  double bytes = 0;  // of the whole tensors, padding included
  double seconds = 0;
  WireSeconds wires;
};

// What the data-parallel ranks of a stage move: the simulator and the communication table both add up these. Without
// sharding gradients are all-reduced; with it they are scattered among the shards and summed across their replicas, and
// weights are gathered. Leaves out what moves nothing.
std::vector<StateTransfer> state_transfers(const PricedLayout& priced, std::size_t stage);

}  // namespace llmtrain
