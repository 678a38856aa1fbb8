// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/plan/report/html/time_axis.h"
#include "parallel/plan/report/html/timeline_selection.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/report/plan_report.h"

namespace llmtrain {

// The sections of a page that need no timeline, as HTML.

// Name, verdict and the most important figures.
std::string headline_section(const PlanReport& report);
// Where a step's time goes, as a bar and a list.
std::string step_section(const PlanReport& report);
// Warnings and suggestions; empty if there are none.
std::string advice_section(const PlanReport& report);
std::string rank_section(const PlanReport& report);
std::string communication_section(const PlanReport& report);
std::string recipe_section(const PlanReport& report);

// The schedule as SVG in a <section>: one row per selected rank with lanes for passes, data-parallel collectives and
// transfers; and as JSON for the page's script, which describes the instruction under the pointer.
std::string timeline_section(const Plan& plan, const TimelineSelection& selection, const TimeAxis& axis);

// Memory over one step, stacked by category, with the device's limit as a line: a large chart of the fullest rank and
// small ones of the selected ranks, on one scale. `axis` covers the whole step.
std::string memory_section(const Plan& plan, const TimelineSelection& selection, const TimeAxis& axis);

}  // namespace llmtrain
