// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// What a rank does in one step, as data: the simulator prices this list and the runner executes it.
enum class Operation {
  forward,
  backward,
  send_activation,
  receive_activation,
  send_gradient,
  receive_gradient,
  gather_weights,
  free_weights,
  reduce_gradients,
  optimizer_step,
};

struct Instruction {
  Operation operation{};
  std::int32_t stage = -1;  // -1: the whole rank (optimizer_step)
  std::int32_t micro = -1;  // micro-batch of the step, -1 where none is meant
  std::int32_t peer = -1;   // pipeline rank at the other end of a transfer

  bool operator==(const Instruction&) const = default;
};

// One line, the operation and the fields that are not -1: "Forward stage 2 micro 0", "SendActivation stage 2 micro 0
// peer 1", "OptimizerStep".
std::string to_text(const Instruction& instruction);

struct RankSchedule {
  std::vector<Instruction> instructions;
};

// A line for each instruction, each with its end of line.
std::string to_text(const RankSchedule& schedule);

struct ScheduleShape {
  PipelineSchedule kind = PipelineSchedule::breadth_first;
  std::int32_t pipeline = 1;  // ranks
  std::int32_t loops = 1;     // stages on each rank
  std::int32_t micro_batches = 1;

  std::int32_t stages() const { return pipeline * loops; }
};

// The schedule of the only rank of a pipeline of one (Lamy-Poirier, arXiv 2211.05953, section 3). breadth_first and
// gpipe pass all micro-batches through a stage before the next one, and back through the stages in reverse; 1f1b and
// interleaved finish one micro-batch, forward and backward, before the next, so they hold one micro-batch's
// activations. Every schedule takes the backwards of a stage in the order of the micro-batches, so that all of them
// sum a parameter's gradients in the same order. One rank has no one to reduce gradients with. `shape.pipeline` is 1.
RankSchedule single_rank_schedule(const ScheduleShape& shape);

}  // namespace llmtrain
