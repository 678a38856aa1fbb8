// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {

// Bytes that a stage keeps for the backward of one micro-batch, of which its blocks save `saved`: between stages of one
// rank (pipeline 1) a value that crosses cuts belongs to the stage that makes it.
double kept_bytes(const Partition& partition, std::size_t stage, double saved, const PassSetting& setting);

// What memory.offload moves over PCIe in the passes of a stage, of which each micro-batch keeps `kept` bytes: weights
// arrive for every pass; activations leave in the forward and return in the backward. All is prefetched, so a pass
// takes the longer of its own time and that of either direction.
void add_offload(const PricedLayout& priced, std::size_t stage, double kept, StageCost& cost);

}  // namespace llmtrain
