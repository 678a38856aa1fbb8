// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/residency/residency_plan.h"
#include "parallel/plan/policies/rank_tasks.h"
#include "parallel/plan/simulator/step_copies.h"

namespace llmtrain {

struct CopyRates {
  double bytes_per_second = 0;              // in each direction
  std::vector<double> host_update_seconds;  // by stage; empty: the device updates
};

// The moves of a plan within a budget as copies around the rank's instructions, of which there are so many. A task of
// the device that takes memory which an earlier copy to the host has not given back yet waits for it; nothing else
// does.
std::vector<InstructionCopies> task_copies(const RankTasks& tasks, const ResidencyPlan& plan, std::int64_t budget,
                                           const CopyRates& rates, std::size_t instructions);

}  // namespace llmtrain
