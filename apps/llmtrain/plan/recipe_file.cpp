// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/recipe_file.h"

#include <cstddef>
#include <string_view>
#include <tuple>

#include "apps/llmtrain/data/epochs.h"
#include "apps/llmtrain/machine/machine_profile.h"
#include "apps/llmtrain/machine/profiles.h"
#include "parallel/plan/planner/planner.h"

namespace llmtrain::app {

Error with_file(const std::string& file, const Error& error) {
  // Other errors name their own file.
  if (error.code() != ExitCode::bad_recipe || std::string_view(error.what()).starts_with(file)) return error;
  std::string text = file + ": ";
  for (const char letter : std::string_view(error.what())) {
    text += letter;
    if (letter == '\n') text += file + ": ";
  }
  return {error.code(), text};
}

std::string first_problem(const Error& error) {
  const std::string text = error.what();
  const std::string line = text.substr(0, text.find('\n'));
  const std::size_t pointer = line.find(": /");
  return pointer == std::string::npos ? line : line.substr(pointer + 2);
}

Override override_of(const KeyDifference& difference) { return difference.key + "=" + difference.second.dump(); }

PlanReport RelatedPlans::report_of(const std::string& file, const PlannedOverrides& overrides) {
  const Recipe recipe = read_counted_recipe(file, overrides.all);
  measure_machine(recipe);
  return named_with_file(file, [&] {
    const ClusterProfile& profile = profile_for(recipe);
    layout_ = lay_out(recipe, profile, graph_for(recipe));
    PlanReport report = make_plan(layout_, profile).report;
    report.derives_data = overrides.derives_data;
    return report;
  });
}

ChangedPlan RelatedPlans::changed_plan(const std::string& file, const std::vector<Override>& overrides) {
  try {
    return {report_of(file, PlannedOverrides{.all = overrides}), ""};
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_recipe) throw;
    return {std::nullopt, first_problem(error)};
  }
}

const ClusterProfile& RelatedPlans::profile_for(const Recipe& recipe) {
  // The device decides whether this machine is measured.
  const auto names = [](const ClusterRecipe& cluster) {
    return std::tie(cluster.profile, cluster.program, cluster.device);
  };
  if (!cluster_ || names(*cluster_) != names(recipe.cluster)) {
    profile_ = profile_of(recipe);
    cluster_ = recipe.cluster;
  }
  return profile_;
}

std::shared_ptr<const Graph> RelatedPlans::graph_for(const Recipe& recipe) const {
  // Where the plan says which products are in FP8, it is the graph of one layout.
  if (layout_ == nullptr || layout_->recipe().precision.plans_products()) return nullptr;
  return have_equal_graphs(layout_->recipe(), recipe) ? layout_->partition().graph : nullptr;
}

}  // namespace llmtrain::app
