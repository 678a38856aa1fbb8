// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/base/long_work.h"

namespace llmtrain {

// Where a run keeps what it makes from its data, for all its processes and for later starts.
struct DataCache {
  // Made where it is needed, and visible to all processes; empty: each makes its own in memory.
  std::filesystem::path folder{};
  // Whether to end soon with stopped_while(): long work asks from time to time.
  using Stops = WorkMonitor::Stops;
  // Runs `make` on one of the processes that open the data together, while the others wait for it. All of them return
  // what it returns, and throw what it throws.
  std::function<std::string(const std::function<std::string(const Stops&)>& make)> once = [](const auto& make) {
    return make([] { return false; });
  };
};

}  // namespace llmtrain
