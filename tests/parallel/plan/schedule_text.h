// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/schedule/schedule.h"

namespace llmtrain {

// A rank's list as one line without transfers: F and B with stage.micro, + and - for gathered and freed weights, R for
// reduced gradients, "step".
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
    if (instruction.operation == Operation::optimizer_step) word = "step";
    if (!word.empty()) text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

}  // namespace llmtrain
