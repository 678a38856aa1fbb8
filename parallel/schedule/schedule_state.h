// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace llmtrain {

// The state of all stages and ranks in check().
class ScheduleState {
 public:
  explicit ScheduleState(const ScheduleShape& shape);

  // Executes one instruction of a rank and returns the rule that it breaks, or an empty string. Its stage, micro-batch
  // and peer must exist.
  std::string execute(const Instruction& instruction, std::int32_t rank);
  // What is missing after the rank's last instruction; empty if nothing.
  std::string finish(std::int32_t rank) const;

 private:
  // Facts of one micro-batch on one stage.
  enum Fact : std::uint8_t {
    forward_done = 1,
    backward_done = 2,
    activation_sent = 4,
    activation_received = 8,
    gradient_sent = 16,
    gradient_received = 32,
  };
  struct StageState {
    std::int32_t forwards = 0;
    std::int32_t backwards = 0;  // also the index of the next micro-batch
    std::int32_t unreduced = 0;  // backwards since the last reduction
    std::int32_t updates = 0;    // gathers after OptimizerStep
    bool is_updated = false;     // by an OptimizerStep of its own
    bool is_evicted = false;     // its gradients, to the host
    bool is_gathered = false;
    bool is_used = false;  // since the gather
  };
  struct RankState {
    std::int32_t gathered = 0;
    bool has_stepped = false;
  };

  std::uint8_t& facts(std::int32_t stage, std::int32_t micro);
  StageState& stage_of(const Instruction& instruction) { return stages_[static_cast<std::size_t>(instruction.stage)]; }
  RankState& rank_of(const Instruction& instruction) {
    return ranks_[static_cast<std::size_t>(instruction.stage % shape_.pipeline)];
  }
  bool is_last(std::int32_t stage) const { return stage + 1 == shape_.stages(); }
  std::string forward(const Instruction& instruction);
  std::string backward(const Instruction& instruction);
  // A tensor may be sent once, after it was computed, and received once.
  std::string send(const Instruction& instruction);
  std::string receive(const Instruction& instruction);
  std::string gather(const Instruction& instruction);
  std::string free(const Instruction& instruction);
  std::string reduce(const Instruction& instruction);
  std::string update(const Instruction& instruction);
  std::string evict(const Instruction& instruction);
  std::string incomplete(const StageState& stage) const;
  std::string optimizer_step(std::int32_t rank);
  std::string use_weights(const Instruction& instruction);
  std::string gather_update(StageState& stage, const RankState& rank);

  const ScheduleShape shape_;
  std::vector<std::uint8_t> facts_;  // [stage][micro]
  std::vector<StageState> stages_;
  std::vector<RankState> ranks_;
};

}  // namespace llmtrain
