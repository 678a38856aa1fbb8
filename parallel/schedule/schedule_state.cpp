// SPDX-License-Identifier: Apache-2.0
#include "parallel/schedule/schedule_state.h"

namespace llmtrain {

ScheduleState::ScheduleState(const ScheduleShape& shape)
    : shape_(shape),
      facts_(static_cast<std::size_t>(shape.stages()) * static_cast<std::size_t>(shape.micro_batches)),
      stages_(static_cast<std::size_t>(shape.stages())),
      ranks_(static_cast<std::size_t>(shape.pipeline)) {}

std::string ScheduleState::execute(const Instruction& instruction, std::int32_t rank) {
  switch (instruction.operation) {
    case Operation::forward:
      return forward(instruction);
    case Operation::backward:
      return backward(instruction);
    case Operation::send_activation:
    case Operation::send_gradient:
      return send(instruction);
    case Operation::receive_activation:
    case Operation::receive_gradient:
      return receive(instruction);
    case Operation::gather_weights:
      return gather(instruction);
    case Operation::free_weights:
      return free(instruction);
    case Operation::reduce_gradients:
      return reduce(instruction);
    case Operation::evict_gradients:
      return evict(instruction);
    case Operation::optimizer_step:
      return instruction.stage < 0 ? optimizer_step(rank) : update(instruction);
  }
  return "it is no instruction";
}

std::uint8_t& ScheduleState::facts(std::int32_t stage, std::int32_t micro) {
  return facts_[static_cast<std::size_t>(stage) * static_cast<std::size_t>(shape_.micro_batches) +
                static_cast<std::size_t>(micro)];
}

std::string ScheduleState::use_weights(const Instruction& instruction) {
  if (rank_of(instruction).has_stepped) return "no pass may follow OptimizerStep";
  StageState& stage = stage_of(instruction);
  if (stage.is_updated) return "no pass may follow the stage's OptimizerStep";
  if (stage.is_evicted) return "no pass may follow the stage's EvictGradients";
  if (instruction.operation == Operation::backward && !shape_.has_backward(instruction.stage)) return {};
  if (shape_.sharding() == 3 && !stage.is_gathered) return "the stage's weights are not gathered";
  stage.is_used = true;
  return {};
}

std::string ScheduleState::forward(const Instruction& instruction) {
  std::uint8_t& here = facts(instruction.stage, instruction.micro);
  if ((here & forward_done) != 0) return "the stage has already run this micro-batch forward";
  // Within one rank the previous stage's pass is the input; between ranks its receive.
  if (instruction.stage > 0) {
    const bool has_input = shape_.pipeline == 1 ? (facts(instruction.stage - 1, instruction.micro) & forward_done) != 0
                                                : (here & activation_received) != 0;
    if (!has_input) return "its input, the activation of the previous stage, is missing";
  }
  here |= forward_done;
  ++stage_of(instruction).forwards;
  return use_weights(instruction);
}

std::string ScheduleState::backward(const Instruction& instruction) {
  std::uint8_t& here = facts(instruction.stage, instruction.micro);
  StageState& stage = stage_of(instruction);
  if ((here & backward_done) != 0) return "the saved activations were used up by an earlier Backward";
  if ((here & forward_done) == 0) return "there are no saved activations: its Forward has not run";
  if (!is_last(instruction.stage) && shape_.sends_gradients(instruction.stage + 1)) {
    const bool has_input = shape_.pipeline == 1 ? (facts(instruction.stage + 1, instruction.micro) & backward_done) != 0
                                                : (here & gradient_received) != 0;
    if (!has_input) return "its input, the gradient of the next stage, is missing";
  }
  // Gradients are accumulated in this order, so it determines their rounding.
  if (instruction.micro != stage.backwards) {
    return "the backwards of a stage run in the order of the micro-batches, and micro-batch " +
           std::to_string(stage.backwards) + " is next";
  }
  // With sharded gradients the next group would write into gradients that are still to be reduced.
  if (shape_.reduces && stage.unreduced == shape_.reduction_group()) {
    return "the stage's gradients of the previous micro-batches must be reduced first";
  }
  here |= backward_done;
  ++stage.backwards;
  ++stage.unreduced;
  return use_weights(instruction);
}

std::string ScheduleState::send(const Instruction& instruction) {
  const bool activation = instruction.operation == Operation::send_activation;
  std::uint8_t& here = facts(instruction.stage, instruction.micro);
  if (activation ? is_last(instruction.stage) : instruction.stage == 0) {
    return activation ? "the last stage sends no activations" : "the first stage sends no gradients";
  }
  if (!activation && !shape_.sends_gradients(instruction.stage)) return "the stage before it is frozen";
  if ((here & (activation ? forward_done : backward_done)) == 0) return "the tensor has not been computed yet";
  const std::uint8_t sent = activation ? activation_sent : gradient_sent;
  if ((here & sent) != 0) return "the tensor was sent already";
  here |= sent;
  return {};
}

std::string ScheduleState::receive(const Instruction& instruction) {
  const bool activation = instruction.operation == Operation::receive_activation;
  std::uint8_t& here = facts(instruction.stage, instruction.micro);
  const std::uint8_t received = activation ? activation_received : gradient_received;
  if ((here & received) != 0) return "the tensor was received already";
  here |= received;
  return {};
}

std::string ScheduleState::gather_update(StageState& stage, const RankState& rank) {
  if (shape_.sharding() == 0) return "nothing is sharded, so there is nothing to gather";
  if (!rank.has_stepped && !stage.is_updated) return "at ZeRO-1 and -2 weights are gathered only after OptimizerStep";
  if (++stage.updates > 1) return "the stage's updated weights were gathered already";
  return {};
}

std::string ScheduleState::gather(const Instruction& instruction) {
  StageState& stage = stage_of(instruction);
  RankState& rank = rank_of(instruction);
  if (shape_.sharding() != 3) return gather_update(stage, rank);
  if (rank.has_stepped) return "at ZeRO-3 nothing is gathered after OptimizerStep";
  if (stage.is_gathered) return "the stage's weights are gathered already";
  // Two buffers are what make_schedule() promises and hold_weights() plans with.
  if (++rank.gathered > 2) return "two other stages are gathered, and there are only two buffers";
  stage.is_gathered = true;
  stage.is_used = false;
  return {};
}

std::string ScheduleState::free(const Instruction& instruction) {
  StageState& stage = stage_of(instruction);
  if (shape_.sharding() != 3) return "weights are freed at ZeRO-3 only";
  if (!stage.is_gathered) return "the stage's weights are not gathered";
  // A gather without use is harmless but costs a collective: the schedule is wrong.
  if (!stage.is_used) return "the stage's weights were gathered but not used";
  stage.is_gathered = false;
  --rank_of(instruction).gathered;
  return {};
}

std::string ScheduleState::reduce(const Instruction& instruction) {
  StageState& stage = stage_of(instruction);
  if (!shape_.reduces) return "there are no other ranks to reduce gradients with";
  if (stage.unreduced != shape_.reduction_group()) {
    return "a reduction follows " + std::to_string(shape_.reduction_group()) + " backwards of the stage, and " +
           std::to_string(stage.unreduced) + " ran since the last";
  }
  stage.unreduced = 0;
  return {};
}

std::string ScheduleState::update(const Instruction& instruction) {
  StageState& stage = stage_of(instruction);
  if (!shape_.updates_by_stage) return "all stages are updated at once";
  if (stage.is_updated) return "the stage was updated already";
  if (std::string missing = incomplete(stage); !missing.empty()) return missing;
  stage.is_updated = true;
  return {};
}

std::string ScheduleState::evict(const Instruction& instruction) {
  StageState& stage = stage_of(instruction);
  if (!shape_.evicts(instruction.stage)) return "gradients stay where they are";
  if (rank_of(instruction).has_stepped) return "OptimizerStep takes what has been evicted";
  if (stage.is_evicted) return "the stage's gradients were evicted already";
  if (std::string missing = incomplete(stage); !missing.empty()) return missing;
  stage.is_evicted = true;
  return {};
}

// Why its gradients are not final; empty where they are.
std::string ScheduleState::incomplete(const StageState& stage) const {
  if (stage.backwards != shape_.micro_batches) return "the stage has not run every micro-batch backward";
  if (shape_.reduces && stage.unreduced != 0) return "the stage's gradients are not reduced";
  return {};
}

std::string ScheduleState::optimizer_step(std::int32_t rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  if (state.has_stepped) return "there must be exactly one OptimizerStep";
  state.has_stepped = true;
  for (std::int32_t stage = rank; stage < shape_.stages(); stage += shape_.pipeline) {
    const StageState& here = stages_[static_cast<std::size_t>(stage)];
    const std::string name = "stage " + std::to_string(stage);
    if (here.forwards != shape_.micro_batches || here.backwards != shape_.micro_batches) {
      return name + " has not run every micro-batch forward and backward";
    }
    if (shape_.reduces && here.unreduced != 0) return "the gradients of " + name + " are not reduced";
    if (here.is_gathered) return "the weights of " + name + " are not freed";
    if (shape_.updates_by_stage && !here.is_updated) return name + " is not updated";
    if (shape_.evicts(stage) && !here.is_evicted) return "the gradients of " + name + " are not evicted";
    // With one rank tensors stay on it; nothing is sent.
    if (shape_.pipeline == 1) continue;
    for (std::int32_t micro = 0; micro < shape_.micro_batches; ++micro) {
      const std::uint8_t known = facts(stage, micro);
      const bool lacks_activation = !is_last(stage) && (known & activation_sent) == 0;
      const bool lacks_gradient = stage > 0 && shape_.sends_gradients(stage) && (known & gradient_sent) == 0;
      if (!lacks_activation && !lacks_gradient) continue;
      return std::string(lacks_activation ? "the activation" : "the gradient") + " of " + name + " micro " +
             std::to_string(micro) + " was not sent";
    }
  }
  return {};
}

std::string ScheduleState::finish(std::int32_t rank) const {
  if (!ranks_[static_cast<std::size_t>(rank)].has_stepped) return "OptimizerStep is missing";
  // At ZeRO-1 and -2 every rank holds whole weights, which the update has made stale.
  for (std::int32_t stage = rank; shape_.gathers_updates() && stage < shape_.stages(); stage += shape_.pipeline) {
    if (stages_[static_cast<std::size_t>(stage)].updates == 0)
      return "the updated weights of stage " + std::to_string(stage) + " are not gathered after OptimizerStep";
  }
  return {};
}

}  // namespace llmtrain
