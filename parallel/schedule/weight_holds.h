// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/schedule/pass_order.h"

namespace llmtrain {

// A stage whose weights a rank holds gathered, as places in its list of passes.
struct WeightHold {
  std::int32_t stage = 0;
  std::size_t gather_before = 0;  // the gather is issued before this pass
  std::size_t first_use = 0;
  std::size_t free_after = 0;  // last use
};

// When ZeRO-3 gathers and frees weights around the passes of a rank, with two buffers: a stage is gathered as soon as
// the buffer that it takes is free, which is while the rank still works on the stage in the other one. `group`
// micro-batches that follow each other in one direction through a stage share a gather. In the order of first use,
// which is also that of gather_before. A stage that is held already, for the other direction, is held on; one that was
// used just before is freed before it is gathered again.
std::vector<WeightHold> hold_weights(const std::vector<Pass>& passes, std::int32_t group);

}  // namespace llmtrain
