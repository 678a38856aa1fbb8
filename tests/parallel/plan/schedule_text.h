// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "parallel/schedule/schedule.h"

namespace llmtrain {

// A rank's list as one line without transfers: F and B with stage.micro, + and - for gathered and freed weights, R for
// reduced gradients, E for evicted ones, U for an updated stage, "step".
inline std::string pass_text(const RankSchedule& schedule) {
  std::string text;
  for (const Instruction& instruction : schedule.instructions) {
    const std::string stage = std::to_string(instruction.stage), pass = stage + "." + std::to_string(instruction.micro);
    std::string word;
    if (instruction.operation == Operation::forward) word = "F" + pass;
    if (instruction.operation == Operation::backward) word = "B" + pass;
    if (instruction.operation == Operation::gather_weights) word = "+" + stage;
    if (instruction.operation == Operation::free_weights) word = "-" + stage;
    if (instruction.operation == Operation::reduce_gradients) word = "R" + stage;
    if (instruction.operation == Operation::evict_gradients) word = "E" + stage;
    if (instruction.operation == Operation::optimizer_step) word = instruction.stage < 0 ? "step" : "U" + stage;
    if (!word.empty()) text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

// Largest number of (stage, micro-batch) pairs whose activations wait for their backward on the rank.
inline std::int64_t most_in_flight(const RankSchedule& schedule) {
  std::int64_t now = 0, most = 0;
  for (const Instruction& instruction : schedule.instructions) {
    if (instruction.operation == Operation::forward) most = std::max(most, ++now);
    if (instruction.operation == Operation::backward) --now;
  }
  return most;
}

// The text of each rank, preceded by a line "Rank r".
inline std::string to_text(const Schedule& schedule) {
  std::string text;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    text += "Rank " + std::to_string(rank) + '\n' + to_text(schedule.ranks[rank]);
  return text;
}

}  // namespace llmtrain
