// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace llmtrain {

// Reports in the log how far long work is: a line every ten seconds, so that short work has none and a log stays short,
// or at another interval.
class ProgressLines {
 public:
  using Clock = std::chrono::steady_clock;

  // `what` begins each line.
  explicit ProgressLines(std::string what, Clock::time_point start = Clock::now(),
                         Clock::duration interval = std::chrono::seconds(10))
      : what_(std::move(what)), start_(start), last_(start), interval_(interval) {}

  // Call it often, with the share of the work that is done, and where its rate is of interest the bytes that have been
  // processed. The first call reports what was done before: what is left is estimated from the rest.
  void show(double share, std::int64_t bytes = 0);
  // The line of that moment; none within the interval after the one before.
  std::optional<std::string> line_at(Clock::time_point now, double share, std::int64_t bytes = 0);

 private:
  struct Done {
    double share = 0;
    std::int64_t bytes = 0;
  };

  std::string what_;
  Clock::time_point start_, last_;
  Clock::duration interval_;
  std::optional<Done> before_;
};

}  // namespace llmtrain
