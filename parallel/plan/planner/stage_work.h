// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/cost/priced_layout.h"
#include "parallel/plan/report/stage_work.h"
#include "parallel/plan/simulator/step_costs.h"

namespace llmtrain {

// What the costs of a partition's stages are made of, operator by operator. `profile` is that of one rank's share of
// its device, by which make_step_costs() made the costs.
StageWork stage_work(const PricedLayout& priced, const StepCosts& costs);

}  // namespace llmtrain
