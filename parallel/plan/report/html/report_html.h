// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/page/html.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/report/sweep.h"

namespace llmtrain {

// The plan as one self-contained page: headline figures, where a step's time goes, warnings and suggestions, the
// schedule of each rank, memory over time, memory per rank, communication, the recipe. Follows the reader's light or
// dark theme, and is printable. Smaller than 2 MB: of a huge timeline the page shows a part and states what is omitted.
// Without a recorded timeline the schedule and memory over time are omitted.
std::string report_html(const Plan& plan);

// A step that ran, for a page with measured_step_script(): `timeline` holds the instructions of one rank of
// each pipeline rank, by pipeline rank and start, with measured times from 0 to `seconds`.
Html measured_step_section(std::shared_ptr<const Layout> layout, std::vector<TimelineEntry> timeline, double seconds);
MarkupLiteral measured_step_script();

// A sweep as such a page: speed and memory over the values of the longest axis, a line for each combination of the
// others, and the table of all plans.
std::string sweep_html(const Sweep& sweep);

}  // namespace llmtrain
