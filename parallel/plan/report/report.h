// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "parallel/plan/report/plan.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain {

// The summary of a plan: whether it fits, the memory of the fullest rank, where a step's time goes, speed, the whole
// run, communication, warnings and suggestions. Newline-terminated lines of at most page_width columns in UTF-8 with
// block elements. Colour means ANSI escapes, which take no columns.
std::string report_text(const PlanReport& report, const TextStyle& style);

// The report as `plan --json` prints it: scripts rely on its names (docs/planner.md lists them). Bytes, tokens and
// counts are integers, times are seconds. Throws Error(internal_error) that names the field if a number is not finite.
nlohmann::ordered_json to_json(const PlanReport& report);

// The same as text, indented by two spaces, with a trailing newline.
std::string report_json(const PlanReport& report);

}  // namespace llmtrain
