// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {

// Called from time to time, by the thread that began the work, with the share of it that is done.
using ReportShare = std::function<void(double share)>;
// For those who do not want to know.
inline void report_nothing(double) {}
// For part number `part`, from 0, of work that is cut into so many equal ones. `report` outlives the result.
inline ReportShare share_of_part(const ReportShare& report, std::size_t part, std::size_t parts) {
  return [&report, part, parts](double share) {
    report((static_cast<double>(part) + share) / static_cast<double>(parts));
  };
}

// What work throws that was asked to stop: Error(stopped). `work`: "tokenising the text".
inline Error stopped_while(const std::string& work) {
  return {ExitCode::stopped, "stopped on request or before its limit while " + work + "; run the same command again"};
}

// Who waits for work that may take long, as at the start of a run: is told how far it is, and may ask for its end.
class WorkMonitor {
 public:
  // Whether to end soon; asked often.
  using Stops = std::function<bool()>;
  enum class Lines { in_log, none };

  // Nobody: nothing is shown, and nothing ends early.
  WorkMonitor() = default;
  // With Lines::in_log there is a line every ten seconds.
  WorkMonitor(Stops stops, Lines lines) : stops_(std::move(stops)), lines_(lines) {}

  // For work that begins, "reading data.bin". What it returns throws stopped_while(what) where the work is to end, and
  // so does this.
  ReportShare begin(const std::string& what) const;

 private:
  Stops stops_ = [] { return false; };
  Lines lines_ = Lines::none;
};

}  // namespace llmtrain
