// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>

namespace llmtrain {

// Where a run keeps what it makes from its data, for all its processes and for later starts.
struct DataCache {
  // Made where it is needed, and visible to all processes; empty: each makes its own in memory.
  std::filesystem::path folder{};
  // Runs `make` on one of the processes that open the data together, while the others wait for it. What it throws all
  // of them throw.
  std::function<void(const std::function<void()>& make)> once = [](const auto& make) { make(); };
};

}  // namespace llmtrain
