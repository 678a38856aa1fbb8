// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/recipe_difference.h"
#include "parallel/plan/report/comparison.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain {

// The recipe with these keys of the source and with those of all changes before.
struct ExplainedChange {
  std::vector<KeyDifference> keys;  // several where each of them alone is refused
  PlanReport plan;
};

// Why a recipe is slower or faster than a source of figures, such as a run. Speeds are tokens per second per device.
struct Explanation {
  PlanReport recipe;
  std::string source;              // its name
  std::string source_description;  // what it was, in sentences; empty where its name says all
  PlanReport source_plan;
  std::optional<double> measured;  // of the source
  std::vector<ExplainedChange> changes;
  std::vector<KeyDifference> without_effect;
  std::vector<KeyDifference> refused;  // with those before, in whatever order

  // What the recipe's run should measure, if it is as far from its plan as the source's; none without a measured speed.
  std::optional<double> expected() const;
};

// The recipe with these of the source's keys.
using PlanWith = std::function<ChangedPlan(const std::vector<KeyDifference>&)>;

// Goes from the recipe to the source, in each turn by the key whose value of the source changes the speed most or,
// where none does, the memory. A key without effect is tried again once no other has one. Keys that are refused alone
// are tried in pairs, then all together, and then with those without effect that they need. Fills in `changes`,
// `without_effect` and `refused`. Plans at most about n² recipes for n keys.
void explain_changes(Explanation& explanation, std::vector<KeyDifference> keys, const PlanWith& plan_with);

// Speeds, the changes with the parts of a step that they change, and what is left. Newline-terminated lines.
std::string explanation_text(const Explanation& explanation, const TextStyle& style);

// {"recipe": as report_json(), "source": {"name", "description", "measured_tokens_per_second_per_device": a number or
// null, "plan": as report_json()}, "expected_tokens_per_second_per_device": a number or null, "changes": [{"keys":
// [{"key", "recipe", "source"}], "tokens_per_second_per_device", "peak_bytes", "verdict", "parts": {PART: seconds per
// token and device}}], "without_effect": [as keys], "refused": [as keys]}. Indented by two spaces, with a trailing
// newline.
std::string explanation_json(const Explanation& explanation);

}  // namespace llmtrain
