// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/plan/report/html/time_axis.h"
#include "parallel/plan/report/html/timeline_selection.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// Memory over one step, stacked by category, with the device's limit as a line: a large chart of the fullest rank and
// small ones of the selected ranks, on one scale. `axis` covers the whole step.
std::string memory_section(const Plan& plan, const TimelineSelection& selection, const TimeAxis& axis);

}  // namespace llmtrain
