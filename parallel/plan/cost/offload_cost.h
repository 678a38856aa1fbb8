// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {

// Bytes that a stage keeps for the backward of one micro-batch, of which its blocks save `saved`. Between stages of one
// rank (pipeline 1) a value that crosses cuts is one tensor, and belongs to the stage that makes it: later ones that
// keep it have less by as much, or where none does the last that reads it, which frees it until its backward makes the
// gradient.
double kept_bytes(const Partition& partition, const OperatorLists& operators, std::size_t stage, double saved);

// Elements of a group that the rank updates.
double owned_elements(const StateGroup& group);

// Bytes of a group's gradients that leave the device in a step (memory.offload.gradients): of the elements that the
// rank updates, where they do not wait for other ranks of the pipeline.
double evicted_bytes(const Partition& partition, const StateGroup& group);
// The same bytes of all stages of a pipeline rank.
double evicted_bytes(const Partition& partition, std::int64_t pipeline_rank);

// What updates on the device move whose states the host has (memory.policy "naive_swapping";
// parallel/shard/states/offload/swapped_update.h). All 0 without.
struct SwappedStates {
  double incoming = 0, outgoing = 0;  // bytes of a step: states, gradients that have left before, and new weights
  double workspace = 0;               // that are on the device at once

  double bytes() const { return incoming + outgoing; }
};

SwappedStates swapped_states(const Partition& partition, std::int64_t pipeline_rank);

// What memory.offload moves over PCIe for the passes of a stage, of which each micro-batch keeps `kept` bytes: weights
// arrive before each gather, which takes so much longer; activations leave in the forward and return in the backward,
// so that a pass takes the longer of its own time and that of either direction. Gradients leave beside the passes that
// follow. The stage's backward comes after an update of `update_before` seconds, beside which weights arrive; 0: after
// another backward.
void add_offload(const PricedLayout& priced, std::size_t stage, double kept, double update_before, StageCost& cost);

}  // namespace llmtrain
