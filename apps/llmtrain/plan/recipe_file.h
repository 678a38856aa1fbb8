// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/plan/derived_data.h"
#include "core/base/error.h"
#include "core/recipe/recipe_difference.h"
#include "core/recipe/recipe_io.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/comparison.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain::app {

// Planning reports errors by JSON pointer, one per line; this puts the file's name before each line. Errors that name
// their own file stay as they are.
Error with_file(const std::string& file, const Error& error);

// Calls the function and adds the file's name to errors of its recipe.
template <class Function>
auto named_with_file(const std::string& file, Function function) {
  try {
    return function();
  } catch (const Error& error) {
    throw with_file(file, error);
  }
}

// The first problem that an error reports, without the name of the file: for tables of recipes that share one.
std::string first_problem(const Error& error);

// The second recipe's value, as --set takes it.
Override override_of(const KeyDifference& difference);

// Plans recipes that have much in common, such as the points of a sweep: the profile and the graph of one plan serve
// for the next as long as they are the same.
class RelatedPlans {
 public:
  // The plan of a file's recipe, without suggestions. Throws Error.
  PlanReport report_of(const std::string& file, const PlannedOverrides& overrides);

  // The same with these overrides and no others, or why the recipe is refused. From the file and not from its resolved
  // recipe: keys whose defaults follow a changed one must follow it.
  ChangedPlan changed_plan(const std::string& file, const std::vector<Override>& overrides);

 private:
  const ClusterProfile& profile_for(const Recipe& recipe);
  std::shared_ptr<const Graph> graph_for(const Recipe& recipe) const;

  std::optional<ClusterRecipe> cluster_;  // of which the profile is
  ClusterProfile profile_;
  std::shared_ptr<const Layout> layout_;  // the last one
};

}  // namespace llmtrain::app
