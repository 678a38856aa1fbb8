// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llmtrain {

// How what a device has no room for goes to the host and comes back.
enum class MemoryPolicy : std::uint8_t {
  naive_swapping,  // as virtual memory: passes micro-batch by micro-batch, what was used longest ago leaves
  zero_offload,    // the host updates, and gradients leave as they are final (Ren et al., arXiv 2101.06840)
  zero_infinity,   // weights, too, come for each use and leave after it (Rajbhandari et al., arXiv 2104.07857)
  patrickstar,     // what is needed furthest ahead leaves (Fang et al., arXiv 2108.05818)
  harmony,         // all micro-batches through a pack of layers at once, early updates (Li et al., arXiv 2202.01306)
  own,             // the fastest of all orders, packs, evictions and places of updates that are tried
};

struct MemoryPolicyName {
  std::string_view word;   // in JSON
  std::string_view label;  // in text
};

// In the order of the enum.
inline constexpr std::array<MemoryPolicyName, 6> memory_policy_names = {{
    {"naive_swapping", "naive swapping"},
    {"zero_offload", "ZeRO-Offload"},
    {"zero_infinity", "ZeRO-Infinity"},
    {"patrickstar", "PatrickStar"},
    {"harmony", "Harmony"},
    {"own", "the planner's"},
}};

inline const MemoryPolicyName& name_of(MemoryPolicy policy) {
  return memory_policy_names[static_cast<std::size_t>(policy)];
}

}  // namespace llmtrain
