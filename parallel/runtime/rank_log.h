// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/base/log.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// The log of a rank other than the first: `log/rank-0000N.log` in the run directory, nothing on the console.
class RankLog {
 public:
  // Throws Error(cannot_write).
  RankLog(const RunRequest& request, int rank);
  spdlog::logger& get() const { return *logger_; }

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace llmtrain
