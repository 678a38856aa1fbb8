// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/explain.h"

#include <cmath>
#include <filesystem>
#include <optional>

#include "apps/llmtrain/plan/derived_data.h"
#include "apps/llmtrain/plan/published_source.h"
#include "apps/llmtrain/plan/recipe_file.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/recipe/recipe_file.h"
#include "parallel/plan/report/explanation.h"
#include "parallel/run/report/comparison.h"

namespace llmtrain::app {
namespace {

// The median over the run's steps, of all devices.
double measured_tokens_per_second(const std::string& run) {
  const double tokens = compare_runs({run}).runs.front().figures.tokens_per_second;
  if (!(tokens > 0) || !std::isfinite(tokens))
    throw Error(ExitCode::bad_data,
                run + ": its metrics.jsonl states the speed of no step; give a run that has trained one");
  return tokens;
}

void explain_run(Explanation& explanation, RelatedPlans& plans, const std::string& run) {
  const double tokens = measured_tokens_per_second(run);
  explanation.source = run;
  explanation.source_plan = plans.report_of(recipe_file(run).string(), {});
  explanation.measured = tokens / static_cast<double>(explanation.source_plan.mesh.world());
}

}  // namespace

int show_explanation(const std::string& file, const std::vector<Override>& overrides, const std::string& source,
                     const PlanOutputs& outputs) {
  const std::optional<std::string> name = published_name(source);
  if (name && name->empty()) return list_published(outputs.json);
  RelatedPlans plans;
  Explanation explanation;
  name ? explain_published(explanation, *name) : explain_run(explanation, plans, source);
  const PlannedOverrides common = with_derived_data(file, overrides);
  explanation.recipe = plans.report_of(file, common);
  explain_changes(explanation, key_differences(explanation.recipe.recipe, explanation.source_plan.recipe),
                  [&](const std::vector<KeyDifference>& keys) {
                    std::vector<Override> changed = common.all;
                    for (const KeyDifference& key : keys) changed.push_back(override_of(key));
                    return plans.changed_plan(file, changed);
                  });
  outputs.json ? write_json(explanation_json(explanation))
               : write_result(explanation_text(explanation, style_of_output()));
  return static_cast<int>(ExitCode::done);
}

}  // namespace llmtrain::app
