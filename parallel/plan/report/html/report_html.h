// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/plan/report/plan.h"
#include "parallel/plan/report/sweep.h"

namespace llmtrain {

// The plan as one self-contained page: headline figures, where a step's time goes, warnings and suggestions, the
// schedule of each rank, memory over time, memory per rank, communication, the recipe. Follows the reader's light or
// dark theme, and is printable. Smaller than 2 MB: of a huge timeline the page shows a part and states what is omitted.
// Without a recorded timeline the schedule and memory over time are omitted.
std::string report_html(const Plan& plan);

// A sweep as such a page: speed and memory over the values of the longest axis, a line for each combination of the
// others, and the table of all plans.
std::string sweep_html(const Sweep& sweep);

}  // namespace llmtrain
