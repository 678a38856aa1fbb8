// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/plan/report/plan_report.h"

namespace llmtrain {

enum class TextColour { off, on };

// The summary of a plan: whether it fits, the memory of the fullest rank, where a step's time goes, speed, the whole
// run, communication, warnings and suggestions. Newline-terminated lines of at most 100 columns in UTF-8 with block
// elements. Colour means ANSI escapes, which take no columns.
std::string report_text(const PlanReport& report, TextColour colour);

// The rank with the highest peak, the first of equals. `report.ranks` must not be empty.
const PlannedRank& fullest_rank(const PlanReport& report);

// "678.2k device-hours", and their price if the profile states one.
std::string cost_text(const PlannedRun& run);

}  // namespace llmtrain
