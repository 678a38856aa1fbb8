// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/comparison.h"

#include "apps/llmtrain/plan/recipe_file.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "parallel/plan/report/comparison.h"

namespace llmtrain::app {
int show_comparison(const std::string& first, const std::string& second, const std::vector<Override>& overrides,
                    const PlanOutputs& outputs) {
  RelatedPlans plans;
  const PlannedOverrides common = with_derived_data(first, overrides);
  PlanComparison comparison{
      plans.report_of(first, common), plans.report_of(second, with_derived_data(second, overrides)), {}, {}};
  std::vector<Override> refused = common.all;
  for (const KeyDifference& difference : key_differences(comparison.first.recipe, comparison.second.recipe)) {
    std::vector<Override> one = common.all;
    one.push_back(override_of(difference));
    comparison.effects.push_back({difference, plans.changed_plan(first, one)});
    if (!comparison.effects.back().alone.report) refused.push_back(one.back());
  }
  // Degrees that divide the same devices can only change together.
  if (refused.size() > common.all.size() + 1) comparison.together = plans.changed_plan(first, refused);
  outputs.json ? write_json(comparison_json(comparison)) : write_result(comparison_text(comparison, style_of_output()));
  return static_cast<int>(ExitCode::done);
}

}  // namespace llmtrain::app
