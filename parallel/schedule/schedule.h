// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// What a rank does in one step, as data: the simulator prices this list and the runner executes it.
enum class Operation : std::uint8_t {
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
  std::int32_t loops = 1;     // stages on each rank; stage i lives on rank i mod pipeline
  std::int32_t micro_batches = 1;
  std::int32_t zero_stage = 0;  // 0 to 3
  bool reduces = false;         // more than one rank holds the same parameters; without it zero_stage means nothing

  std::int32_t stages() const { return pipeline * loops; }
  // ZeRO's stage as far as there are ranks to shard over.
  std::int32_t sharding() const { return reduces ? zero_stage : 0; }
  // Micro-batches that a stage takes with its weights gathered once: all (breadth_first, gpipe), as many as ranks
  // (interleaved over more than one rank), or one, as ordinary FSDP.
  std::int32_t gather_group() const;
  // Micro-batches whose gradients are summed before they are reduced: gather_group() where gradients are sharded
  // (ZeRO-2 and -3), else all of the step.
  std::int32_t reduction_group() const { return sharding() >= 2 ? gather_group() : micro_batches; }
};

struct Schedule {
  ScheduleShape shape;
  std::vector<RankSchedule> ranks;  // by pipeline rank
};

// Each rank's text after a line "Rank r".
std::string to_text(const Schedule& schedule);

// What every pipeline rank does in one step. The order of the passes:
//   gpipe          all forwards, then all backwards (Huang et al., arXiv 1811.06965);
//   1f1b           pipeline − rank − 1 forwards, then a forward and a backward in turn (Narayanan et al., arXiv
//                  2104.04473, section 2.2.1);
//   interleaved    depth first: as many micro-batches as ranks through each of the rank's stages, after a warm-up of
//                  2 · (pipeline − rank − 1) + (loops − 1) · pipeline forwards (ibid., section 2.2.2); 1f1b with one
//                  loop;
//   breadth_first  all micro-batches through a stage before the next one, and back through the stages in reverse
//                  (Lamy-Poirier, arXiv 2211.05953, section 3).
// Over one rank 1f1b and interleaved finish one micro-batch, forward and backward, before the next. Every schedule
// takes the backwards of a stage in the order of the micro-batches, so that all sum a parameter's gradients in the same
// order.
//
// Between ranks: a receive stands before the pass that needs its tensor, a send after the pass that made it;
// activations and gradients travel in channels of their own. ZeRO-3 gathers a stage's weights before use and frees them
// after it, once in each direction for every gather_group(); the gather is issued one stage ahead of its use, never
// with more than two stages gathered, and a stage is freed before it is gathered again. Gradients are reduced after the
// last backward of each reduction_group(). At ZeRO-1 and -2 the updated weights of each stage are gathered after
// OptimizerStep.
//
// The shape is what the schedule allows (core/recipe/pipeline_schedules.h), or it is an Error(internal_error).
Schedule make_schedule(const ScheduleShape& shape);

}  // namespace llmtrain
