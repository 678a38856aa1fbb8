// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "parallel/schedule/schedule.h"

namespace llmtrain {

// Proves that the schedule runs by executing all ranks on tokens in place of tensors. Each rank has two first-in,
// first-out channels to its neighbours, for activations and for gradients: a send waits while `buffers` tensors (at
// least 1) of its channel have not been received, a receive waits for its tensor. With as many buffers as micro-batches
// no send waits. Proves that
//   - every rank reaches its end: no deadlock, and no tensor is left in a channel;
//   - each receive takes the tensor that was sent for it: same stage, micro-batch and neighbour;
//   - each stage runs each micro-batch once forward and once backward, the backwards in order;
//   - each pass runs after its input has arrived and, at ZeRO-3, with its weights gathered;
//   - at ZeRO-3 at most two stages are gathered at once, none without use, all freed before OptimizerStep;
//   - at ZeRO-1 and -2 each stage is gathered once after OptimizerStep;
//   - the gradients of every reduction_group() are reduced once, before the next group's first backward;
//   - OptimizerStep comes once, after all of that.
// Throws Error(internal_error) that names the first wrong instruction by rank, index and text, and the broken rule.
// Takes time and memory linear in the number of instructions.
void check(const Schedule& schedule, std::int32_t buffers);

}  // namespace llmtrain
