// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/recipe/recipe_difference.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain {

// The keys whose values differ, in the recipes' order, without the name, the description and the
// folder of logs, which follows the name.
std::vector<KeyDifference> key_differences(const Recipe& first, const Recipe& second);

// The plan of a changed recipe, or why the change is refused.
struct ChangedPlan {
  std::optional<PlanReport> report;
  std::string refusal;  // without a report
};

// The first recipe with one key of the second.
struct KeyEffect {
  KeyDifference difference;
  ChangedPlan alone;
};

// Two plans side by side, and what each key that differs contributes.
struct PlanComparison {
  PlanReport first;
  PlanReport second;
  std::vector<KeyEffect> effects;
  std::optional<ChangedPlan> together;  // the first recipe with all keys that are refused alone, where they are several
};

// Figures, the parts of a step, memory and keys, each with the second plan's change. Newline-terminated lines of
// at most page_width columns.
std::string comparison_text(const PlanComparison& comparison, const TextStyle& style);

// {"plans": [as report_json(), twice], "differences": [{"key", "first", "second", "refused": null or why, and without a
// refusal "step_seconds", "peak_bytes", "fits", "verdict" of the first recipe with this key alone}],
// "refused_together": the same of all refused keys, or null}. Indented by two spaces, with a trailing newline.
std::string comparison_json(const PlanComparison& comparison);

}  // namespace llmtrain
