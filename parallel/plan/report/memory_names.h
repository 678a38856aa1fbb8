// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

#include "parallel/plan/simulator/step_memory.h"

namespace llmtrain {

struct MemoryName {
  MemoryCategory category{};
  std::string_view key;    // in JSON
  std::string_view label;  // in text and pages
};

// Every category, in the order of MemoryCategory.
inline constexpr std::array<MemoryName, memory_categories> memory_names = {{
    {MemoryCategory::weights, "weights", "weights"},
    {MemoryCategory::gradients, "gradients", "gradients"},
    {MemoryCategory::master_weights, "master_weights", "master weights"},
    {MemoryCategory::optimizer, "optimizer", "optimizer"},
    {MemoryCategory::activations, "activations", "activations"},
    {MemoryCategory::buffers, "buffers", "buffers"},
    {MemoryCategory::communication, "communication", "communication"},
    {MemoryCategory::framework, "framework", "framework"},
}};

}  // namespace llmtrain
