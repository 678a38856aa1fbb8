// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/run/report/metrics_rows.h"

namespace llmtrain {

// What a console shows of a step.
struct ProgressLine {
  TrainingRow row;
  std::int64_t total_steps = 0;
  std::string time;  // "1m 30s left"

  // In at most `width` columns, without the fields that matter least if need be: memory first, then MFU, learning rate,
  // terms of the loss and dropped choices of experts (which are named where there are any), gradient norm, speed and
  // time. A width that is too narrow for step and loss cuts the text.
  std::string text(std::size_t width = std::string::npos) const;
};

// "(loss 1.2500, second 0.5000)"; empty where there are none.
std::string terms_text(const std::vector<LossTermRow>& terms);
// "accuracy 91.5 %, macro F1 90.8 %".
std::string figures_text(const std::vector<LossTermRow>& figures);

// How much of a run is done, "━━━╌╌╌": as wide as there is room beside the space that follows it, up to 24 columns.
// Empty where that is too narrow to show anything.
std::string progress_bar(std::int64_t step, std::int64_t total_steps, std::size_t room);

}  // namespace llmtrain
