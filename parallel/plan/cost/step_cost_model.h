// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "parallel/plan/cost/priced_layout.h"
#include "parallel/plan/simulator/step_costs.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {

// Prices every instruction that a schedule of the layout's partition may contain. Blocks that are alike are priced
// once, so that a search can price thousands of layouts per second.
StepCosts make_step_costs(const PricedLayout& priced);

// Gives each stage its part of its rank's optimizer_seconds as update_seconds.
void divide_updates(const Partition& partition, StepCosts& costs);

// What a pipeline rank sends in one step, by collective, purpose and kind of tensor: bytes by the ring algorithm
// (core/base/collective.h), the collectives' time without overlap, and how much of it passes and optimizer wait for; of
// data-parallel traffic and of transfers between stages that is 0, for the simulation to find. The seconds are those
// that make_step_costs() gives to the simulator. Without a rank each row is that of the rank that sends most there.
// Exchanges that move nothing are left out.
std::vector<CommunicationEntry> communication_of(const PricedLayout& priced, const Schedule& schedule,
                                                 std::optional<std::size_t> pipeline_rank = std::nullopt);

}  // namespace llmtrain
