// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/schedule.h"

namespace llmtrain {

namespace {

const char* name(Operation operation) {
  switch (operation) {
    case Operation::forward:
      return "Forward";
    case Operation::backward:
      return "Backward";
    case Operation::send_activation:
      return "SendActivation";
    case Operation::receive_activation:
      return "RecvActivation";
    case Operation::send_gradient:
      return "SendGradient";
    case Operation::receive_gradient:
      return "RecvGradient";
    case Operation::gather_weights:
      return "GatherWeights";
    case Operation::free_weights:
      return "FreeWeights";
    case Operation::reduce_gradients:
      return "ReduceGradients";
    case Operation::optimizer_step:
      return "OptimizerStep";
  }
  return "";
}

// Half-open range of micro-batches.
struct MicroRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

// Takes the range through all stages, one stage after the other, and back.
void append_forward_backward(RankSchedule& schedule, std::int32_t stages, MicroRange range) {
  for (std::int32_t stage = 0; stage < stages; ++stage)
    for (std::int32_t micro = range.first; micro < range.last; ++micro)
      schedule.instructions.push_back({.operation = Operation::forward, .stage = stage, .micro = micro});
  for (std::int32_t stage = stages - 1; stage >= 0; --stage)
    for (std::int32_t micro = range.first; micro < range.last; ++micro)
      schedule.instructions.push_back({.operation = Operation::backward, .stage = stage, .micro = micro});
}

bool takes_all_micro_batches_at_once(PipelineSchedule kind) {
  return kind == PipelineSchedule::breadth_first || kind == PipelineSchedule::gpipe;
}

}  // namespace

std::string to_text(const Instruction& instruction) {
  std::string text = name(instruction.operation);
  if (instruction.stage >= 0) text += " stage " + std::to_string(instruction.stage);
  if (instruction.micro >= 0) text += " micro " + std::to_string(instruction.micro);
  if (instruction.peer >= 0) text += " peer " + std::to_string(instruction.peer);
  return text;
}

std::string to_text(const RankSchedule& schedule) {
  std::string text;
  for (const Instruction& instruction : schedule.instructions) text += to_text(instruction) + '\n';
  return text;
}

RankSchedule single_rank_schedule(const ScheduleShape& shape) {
  const std::int32_t group = takes_all_micro_batches_at_once(shape.kind) ? shape.micro_batches : 1;
  RankSchedule schedule;
  for (std::int32_t micro = 0; micro < shape.micro_batches; micro += group)
    append_forward_backward(schedule, shape.stages(), {.first = micro, .last = micro + group});
  schedule.instructions.push_back({.operation = Operation::optimizer_step});
  return schedule;
}

}  // namespace llmtrain
