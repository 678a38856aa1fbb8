// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/residency/access_sequence.h"
#include "core/residency/residency_plan.h"

namespace llmtrain {

struct ResidencyOutcome {
  std::int64_t peak_bytes = 0;  // of the device, working memory included
  Traffic traffic;
};

// Proves a plan by executing it on versions in place of contents; it has nothing in common with how plans are made.
// Proves that
//   - each task reads the newest version, of which a copy is where the task runs;
//   - a fetch takes the newest version and is not of what the device has; a write-back and a release are of what it
//   has;
//   - no release loses the only copy of a version that is read later, by this step or the next one;
//   - moves beside a device's task neither release nor write back what it uses;
//   - the host does not write what the device has a copy of, which would be old;
//   - what is on the device, with what the running task makes and its working memory, never exceeds the budget, at any
//     move of any list;
//   - at the end the device holds what the plan says, dirty or not, and nothing but lasting tensors.
// Returns what moved and the peak. Throws Error(internal_error) that names the first wrong task, its tensor, and the
// broken rule.
ResidencyOutcome check_residency(const AccessSequence& sequence, const ResidencyPlan& plan, std::int64_t budget);

}  // namespace llmtrain
