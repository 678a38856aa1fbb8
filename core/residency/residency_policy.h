// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/residency/access_sequence.h"
#include "core/residency/residency_plan.h"

namespace llmtrain {

// What leaves the device where room is needed.
enum class Eviction : std::uint8_t {
  least_recently_used,  // as pages of virtual memory
  // That whose next use is furthest away (Belady, IBM Systems Journal 5, 1966; PatrickStar, arXiv 2108.05818, section
  // 8.3): of equal sizes that are only read, no other order fetches less often.
  furthest_next_use,
  // The same in bytes: that which holds most memory for longest, per byte that its leaving and coming back moves.
  most_idle_bytes,
  after_use,  // everything that the next task does not use, whether room is needed or not
};

struct ResidencyPolicy {
  Eviction eviction = Eviction::least_recently_used;
  bool copies_clean = false;  // what leaves is copied to the host although that has it: as without a record of writes
  bool prefetches = false;    // what the next task needs comes beside the one before it, where there is room
  bool returns = false;       // what the host has written comes back at once, where it leaves room for all later tasks
};

// The least budget in which a sequence can run: that of its largest task, with all that it uses.
std::int64_t least_budget(const AccessSequence& sequence);

// One step from `start`, of which the order is that of the last uses. What room is needed for is fetched when it is
// needed or, with `prefetches`, a task earlier. Time in proportion to tasks times tensors. Throws Error(bad_recipe) for
// a budget below least_budget(), with both.
ResidencyPlan plan_residency(const AccessSequence& sequence, std::int64_t budget, const ResidencyPolicy& policy,
                             std::vector<DeviceTensor> start = {});

// A step like all those after it, from the first one on an empty device to the one that begins as it ends; the tenth
// where none does.
ResidencyPlan steady_residency(const AccessSequence& sequence, std::int64_t budget, const ResidencyPolicy& policy);

// Copies all that is dirty at the end of the plan to the host.
void flush(ResidencyPlan& plan);

}  // namespace llmtrain
