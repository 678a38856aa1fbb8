// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "parallel/schedule/schedule.h"

namespace llmtrain {

// Proves that the schedule runs, by letting all ranks run it on tokens in place of tensors. Between two ranks are two
// channels, for activations and for gradients, each first in, first out: a send waits while `buffers` tensors (at least
// 1) of its channel are not received, a receive waits for its tensor. With as many buffers as micro-batches no send
// waits. Proves that
//   - every rank comes to its end: no deadlock, and no tensor is left in a channel;
//   - each receive takes the tensor that was sent for it: same stage, micro-batch and neighbour;
//   - each stage takes each micro-batch once forward and once backward, the backwards in order, each pass after its
//   input
//     has come and, at ZeRO-3, with its weights gathered;
//   - at ZeRO-3 no more than two stages are gathered at once, none for nothing, and all are freed before OptimizerStep;
//   at
//     ZeRO-1 and -2 each stage is gathered once after it;
//   - the gradients of every reduction_group() are reduced once, before the next group's first backward;
//   - OptimizerStep comes once, after all that.
// Throws Error(internal_error) that names the first wrong instruction by rank, index and text, and the rule. Takes time
// and memory linear in the number of instructions.
void check(const Schedule& schedule, std::int32_t buffers);

}  // namespace llmtrain
