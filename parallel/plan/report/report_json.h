// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "parallel/plan/report/plan_report.h"

namespace llmtrain {

// The report as `plan --json` prints it: scripts rely on its names (docs/planner.md lists them). Bytes, tokens and
// counts are integers, times are seconds. Throws Error(internal_error) that names the field if a number is not finite.
nlohmann::ordered_json to_json(const PlanReport& report);

// The same as text, indented by two spaces, with a trailing newline.
std::string report_json(const PlanReport& report);

}  // namespace llmtrain
