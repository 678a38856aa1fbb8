// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

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

}  // namespace llmtrain
