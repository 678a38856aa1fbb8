// SPDX-License-Identifier: Apache-2.0
#include "all_layouts.h"

#include <algorithm>

#include "core/base/error.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/search/estimated_layouts.h"
#include "parallel/plan/search/layout_space.h"
#include "planner_case.h"

namespace llmtrain::test {

Mesh mesh_of(const Recipe& recipe) { return lay_out(recipe, profile_of(recipe))->mesh(); }

void for_each_layout(const Recipe& recipe, const Mesh& mesh, const std::function<void(const Recipe&)>& visit) {
  const Graph graph = Graph::build(recipe.model);
  const LayoutSpace space(recipe, mesh, graph);
  for (const DegreeChoice& degrees : space.degrees())
    for (const ShardingChoice& sharding : space.shardings(degrees))
      for (const PassChoice& passes : space.passes(degrees))
        for (const StageChoice& stages : space.stages(degrees, sharding, passes.micro))
          visit(space.recipe({degrees, sharding, passes, stages}));
}

double Exhaustive::smallest() const {
  double smallest = std::numeric_limits<double>::infinity();
  for (const SearchCandidate& one : fitting)
    if (one.step_seconds < slowest_of_front * fastest) smallest = std::min(smallest, one.peak_bytes);
  return smallest;
}

Exhaustive simulate_all(const Recipe& recipe, const ClusterProfile& cluster) {
  Exhaustive all;
  for_each_layout(recipe, mesh_of(recipe), [&](const Recipe& layout) {
    try {
      const PlanReport report = make_plan(layout, cluster).report;
      if (!report.fits) return;
      all.fitting.push_back({layout, report.step.seconds, peak_bytes(report)});
      all.fastest = std::min(all.fastest, report.step.seconds);
    } catch (const Error&) {
      // Not every enumerated layout is legal.
    }
  });
  return all;
}

}  // namespace llmtrain::test
