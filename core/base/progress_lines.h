// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace llmtrain {

// Says in the log how far long work is: a line every ten seconds, so that short work has none and a log stays short.
class ProgressLines {
 public:
  using Clock = std::chrono::steady_clock;

  // `what` begins each line.
  explicit ProgressLines(std::string what, Clock::time_point start = Clock::now())
      : what_(std::move(what)), start_(start), last_(start) {}

  // Call it often, with the share of the work that is done.
  void show(double share);
  // The line of that moment; none within ten seconds of the one before.
  std::optional<std::string> line_at(Clock::time_point now, double share);

 private:
  std::string what_;
  Clock::time_point start_, last_;
};

}  // namespace llmtrain
