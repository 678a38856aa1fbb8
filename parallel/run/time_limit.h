// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

namespace llmtrain {

// Decides when a run has to stop in order to have ended, with a checkpoint, before its deadline.
class TimeLimit {
 public:
  using Clock = std::chrono::system_clock;

  // No deadline: never.
  explicit TimeLimit(std::optional<Clock::time_point> deadline, Clock::time_point now = Clock::now());

  // `longest_step`: seconds of the longest step so far; `longest_save`: of the longest save from its start to the disk,
  // none if there was none.
  bool must_stop(double longest_step, std::optional<double> longest_save, Clock::time_point now = Clock::now()) const;

 private:
  std::optional<Clock::time_point> deadline_;
  double whole_ = 0;  // seconds from the start to the deadline
};

}  // namespace llmtrain
