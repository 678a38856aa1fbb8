// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/plan/report/plan_report.h"

namespace llmtrain {

enum class TextColour { off, on };

// What a person reads of a plan in ten seconds: whether it fits, the memory of the fullest rank, where a step's time
// goes, speed, the whole run, communication, warnings and suggestions. Lines of at most 100 columns, with their ends of
// line; UTF-8 with block elements. Colour means ANSI escapes, which take no columns.
std::string report_text(const PlanReport& report, TextColour colour);

// The rank that comes nearest to its device's memory, the first of equals. `report.ranks` is not empty.
const PlannedRank& fullest_rank(const PlanReport& report);

// "678.2k device-hours", and their price where the profile states one.
std::string cost_text(const PlannedRun& run);

}  // namespace llmtrain
