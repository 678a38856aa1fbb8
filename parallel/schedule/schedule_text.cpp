// SPDX-License-Identifier: Apache-2.0
#include "parallel/schedule/schedule.h"

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

std::string to_text(const Schedule& schedule) {
  std::string text;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    text += "Rank " + std::to_string(rank) + '\n' + to_text(schedule.ranks[rank]);
  return text;
}

}  // namespace llmtrain
