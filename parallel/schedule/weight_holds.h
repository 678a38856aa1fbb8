// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/schedule/pass_order.h"

namespace llmtrain {

// A period during which a rank holds a stage's gathered weights, as indices into its list of passes.
struct WeightHold {
  std::int32_t stage = 0;
  std::size_t gather_before = 0;  // the gather is issued before this pass
  std::size_t first_use = 0;
  std::size_t free_after = 0;  // last use
};

// When ZeRO-3 gathers and frees weights around the passes of a rank, with two buffers: a stage is gathered as soon as
// its buffer is free, while the rank still works on the stage in the other buffer. `group` consecutive micro-batches in
// one direction through a stage share a gather. Ordered by first use, which is also the order of gather_before. A stage
// that is still held for the other direction stays held; one whose last use has ended is freed before it is gathered
// again.
std::vector<WeightHold> hold_weights(const std::vector<Pass>& passes, std::int32_t group);

}  // namespace llmtrain
