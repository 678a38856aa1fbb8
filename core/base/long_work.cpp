// SPDX-License-Identifier: Apache-2.0
#include "core/base/long_work.h"

#include <memory>

#include "core/base/progress_lines.h"

namespace llmtrain {

ReportShare WorkMonitor::begin(const std::string& what) const {
  const auto lines = lines_ == Lines::in_log ? std::make_shared<ProgressLines>(what) : nullptr;
  ReportShare report = [stops = stops_, what, lines](double share) {
    if (stops()) throw stopped_while(what);
    if (lines) lines->show(share);
  };
  report(0);
  return report;
}

}  // namespace llmtrain
