// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <queue>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "parallel/schedule/schedule.h"
#include "parallel/schedule/schedule_state.h"

namespace llmtrain {

namespace {

bool is_send(Operation operation) {
  return operation == Operation::send_activation || operation == Operation::send_gradient;
}

bool is_receive(Operation operation) {
  return operation == Operation::receive_activation || operation == Operation::receive_gradient;
}

bool is_of_activation(Operation operation) {
  return operation == Operation::send_activation || operation == Operation::receive_activation;
}

bool takes_micro(Operation operation) {
  return operation == Operation::forward || operation == Operation::backward || is_send(operation) ||
         is_receive(operation);
}

struct Tensor {
  std::int32_t stage = 0;
  std::int32_t micro = 0;
};

// Tensors in flight from one rank to a neighbour, identified by the stage that consumes them.
using Channel = std::queue<Tensor>;

// Runs every rank as far as possible; a blocked rank continues when its neighbour has sent or received. The result does
// not depend on the order, because channels have one sender and one receiver each.
class Checker {
 public:
  Checker(const Schedule& schedule, std::int32_t buffers)
      : schedule_(schedule),
        shape_(schedule.shape),
        buffers_(static_cast<std::size_t>(buffers)),
        state_(schedule.shape),
        next_(schedule.ranks.size(), 0),
        channels_(2 * schedule.ranks.size()) {}

  void run() {
    std::vector<std::int32_t> ready;
    for (std::int32_t rank = shape_.pipeline - 1; rank >= 0; --rank) ready.push_back(rank);
    while (!ready.empty()) {
      const std::int32_t rank = ready.back();
      ready.pop_back();
      while (!is_done(rank) && step(rank, ready)) {
      }
    }
    for (std::int32_t rank = 0; rank < shape_.pipeline; ++rank)
      if (!is_done(rank)) fail(rank, why_it_waits(rank));
    for (std::int32_t rank = 0; rank < shape_.pipeline; ++rank) check_end(rank);
  }

 private:
  const std::vector<Instruction>& instructions(std::int32_t rank) const {
    return schedule_.ranks[static_cast<std::size_t>(rank)].instructions;
  }
  std::size_t& next(std::int32_t rank) { return next_[static_cast<std::size_t>(rank)]; }
  std::size_t next(std::int32_t rank) const { return next_[static_cast<std::size_t>(rank)]; }
  bool is_done(std::int32_t rank) const { return next(rank) == instructions(rank).size(); }
  const Instruction& instruction_of(std::int32_t rank) const { return instructions(rank)[next(rank)]; }

  // Activations go to the next rank, gradients to the previous one.
  std::int32_t neighbour(std::int32_t rank, bool is_next) const {
    return (rank + (is_next ? 1 : shape_.pipeline - 1)) % shape_.pipeline;
  }
  Channel& channel_from(std::int32_t rank, Operation operation) {
    return channels_[2 * static_cast<std::size_t>(rank) + (is_of_activation(operation) ? 0 : 1)];
  }

  [[noreturn]] void fail(std::int32_t rank, const std::string& rule) const {
    const bool at_end = is_done(rank);
    throw Error(ExitCode::internal_error, "the schedule cannot run: rank " + std::to_string(rank) + ", " +
                                              (at_end ? "at its end"
                                                      : "instruction " + std::to_string(next(rank)) + " \"" +
                                                            to_text(instruction_of(rank)) + "\"") +
                                              ": " + rule);
  }

  // The rule that a field breaks: one that the operation does not have, or an index out of range. Empty if none.
  std::string wrong_field(std::int32_t rank, const Instruction& instruction) const {
    const Operation operation = instruction.operation;
    if (operation == Operation::optimizer_step && instruction.stage < 0) {
      const bool plain = instruction.stage == -1 && instruction.micro == -1 && instruction.peer == -1;
      return plain ? std::string() : "it applies to the whole rank";
    }
    if (instruction.stage < 0 || instruction.stage >= shape_.stages() || instruction.stage % shape_.pipeline != rank) {
      return "the stage is not on this rank";
    }
    const bool has_micro = instruction.micro >= 0 && instruction.micro < shape_.micro_batches;
    if (takes_micro(operation) ? !has_micro : instruction.micro != -1) return "there is no such micro-batch";
    if (!is_send(operation) && !is_receive(operation)) return instruction.peer == -1 ? std::string() : "it has no peer";
    if (shape_.pipeline == 1) return "a pipeline of one rank exchanges no tensors";
    // Activations move to the next rank and gradients back; stages wrap around, so the last rank's next is the first.
    const std::int32_t peer = neighbour(rank, is_of_activation(operation) == is_send(operation));
    if (instruction.peer == peer) return {};
    return "the stage's neighbour is on rank " + std::to_string(peer);
  }

  // Executes the rank's next instruction. False if it has to wait.
  bool step(std::int32_t rank, std::vector<std::int32_t>& ready) {
    const Instruction& instruction = instruction_of(rank);
    if (const std::string wrong = wrong_field(rank, instruction); !wrong.empty()) fail(rank, wrong);
    const bool sends = is_send(instruction.operation), receives = is_receive(instruction.operation);
    Channel& channel = channel_from(receives ? instruction.peer : rank, instruction.operation);  // of a transfer
    // Full: wait for the receiver, like a send without buffer space at run time.
    if (sends && channel.size() >= buffers_) return false;
    if (receives && channel.empty()) return false;
    if (receives) check_next(channel, rank, instruction);
    if (const std::string broken = state_.execute(instruction, rank); !broken.empty()) fail(rank, broken);
    if (sends)
      channel.push({instruction.stage + (is_of_activation(instruction.operation) ? 1 : -1), instruction.micro});
    if (receives) channel.pop();
    // The peer may have been waiting for this transfer; waking one that was not costs one failed attempt.
    if (sends || receives) ready.push_back(instruction.peer);
    ++next(rank);
    return true;
  }

  // Messages carry no labels at run time: the order of sends must be the order of receives.
  void check_next(const Channel& channel, std::int32_t rank, const Instruction& instruction) const {
    const Tensor& tensor = channel.front();
    if (tensor.stage == instruction.stage && tensor.micro == instruction.micro) return;
    fail(rank, "the next tensor from rank " + std::to_string(instruction.peer) + " is for stage " +
                   std::to_string(tensor.stage) + " micro " + std::to_string(tensor.micro));
  }

  // The reason why this rank is not at its end although no rank can proceed.
  std::string why_it_waits(std::int32_t rank) const {
    const Instruction& instruction = instruction_of(rank);
    const std::string peer = "rank " + std::to_string(instruction.peer);
    const bool send = is_send(instruction.operation);
    if (is_done(instruction.peer)) {
      return send ? peer + " never receives what is in the full channel" : peer + " never sends the tensor";
    }
    return "deadlock: it waits for " + peer + (send ? " to receive" : " to send") + ", which waits at instruction " +
           std::to_string(next(instruction.peer)) + " \"" + to_text(instruction_of(instruction.peer)) + "\", with " +
           std::to_string(buffers_) + (buffers_ == 1 ? " buffer" : " buffers") + " per channel";
  }

  void check_end(std::int32_t rank) {
    if (const std::string missing = state_.finish(rank); !missing.empty()) fail(rank, missing);
    for (const Operation operation : {Operation::send_activation, Operation::send_gradient}) {
      const Channel& channel = channel_from(rank, operation);
      if (channel.empty()) continue;
      fail(neighbour(rank, operation == Operation::send_activation),
           "the tensor for stage " + std::to_string(channel.front().stage) + " micro " +
               std::to_string(channel.front().micro) + " from rank " + std::to_string(rank) + " was not received");
    }
  }

  const Schedule& schedule_;
  const ScheduleShape& shape_;
  std::size_t buffers_;
  ScheduleState state_;
  std::vector<std::size_t> next_;  // index of the next instruction, by rank
  std::vector<Channel> channels_;  // two from each rank: activations, gradients
};

}  // namespace

void check(const Schedule& schedule, std::int32_t buffers) {
  if (schedule.ranks.size() != static_cast<std::size_t>(schedule.shape.pipeline)) {
    throw Error(ExitCode::internal_error, "the schedule cannot run: it has " + std::to_string(schedule.ranks.size()) +
                                              " ranks instead of " + std::to_string(schedule.shape.pipeline));
  }
  if (buffers < 1) throw Error(ExitCode::internal_error, "a channel between ranks must hold at least 1 tensor");
  Checker(schedule, buffers).run();
}

}  // namespace llmtrain
