// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/units.h"
#include "parallel/plan/planner/neighbours.h"
#include "parallel/plan/planner/offload_choices.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/planner/uniform_recompute.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {
namespace {

constexpr std::size_t suggestion_count = 3;
constexpr double worthwhile = 0.98;  // of the step's time: smaller gains are within the model's error

// Decisions that one suggestion changes at most, and neighbours from which the next one is looked for.
constexpr int most_changes = 3;
constexpr std::size_t kept_neighbours = 2;

struct Neighbour {
  Recipe recipe;
  Mesh mesh;
  bool fits = false;
  double step_seconds = 0;
  double peak_bytes = 0;
  bool is_tight = false;

  bool prices_like(const Neighbour& other) const {
    return step_seconds == other.step_seconds && peak_bytes == other.peak_bytes;
  }
};

// All have the same graph: no neighbour changes the model. Building it for each would take half of a plan's time.
std::vector<Neighbour> price(const std::vector<Recipe>& others, const Mesh& mesh, const ClusterProfile& profile,
                             const std::shared_ptr<const Graph>& graph) {
  std::vector<Neighbour> priced;
  for (const Recipe& other : others) {
    try {
      const PlanReport report = make_plan(lay_out(other, profile, graph), profile).report;
      Neighbour neighbour{other,
                          report.mesh,
                          report.fits,
                          report.step.seconds,
                          fullest_rank(report).peak_bytes,
                          verdict_of(report) == MemoryVerdict::tight};
      // Another way to the same plan is no second suggestion.
      const auto same = [&](const Neighbour& earlier) { return earlier.prices_like(neighbour); };
      if (report.mesh.world() == mesh.world() && std::ranges::none_of(priced, same))
        priced.push_back(std::move(neighbour));
    } catch (const Error&) {
      // A neighbour that breaks a rule of recipes or cannot be laid out is not a suggestion.
    }
  }
  return priced;
}

std::vector<Neighbour> price_neighbours(const Recipe& recipe, const Mesh& mesh, const ClusterProfile& profile,
                                        const std::shared_ptr<const Graph>& graph) {
  return price(neighbours(recipe, mesh), mesh, profile, graph);
}

// The neighbours that fit or, where none does, those of the leanest neighbours, until some fit.
std::vector<Neighbour> fitting_neighbours(const Plan& plan, const ClusterProfile& profile,
                                          const std::shared_ptr<const Graph>& graph) {
  std::vector<Neighbour> from{{plan.report.recipe, plan.report.mesh, plan.report.fits, 0, 0, false}};
  for (int changes = 1; changes <= most_changes && !from.empty(); ++changes) {
    std::vector<Neighbour> reached;
    for (const Neighbour& start : from)
      std::ranges::move(price_neighbours(start.recipe, start.mesh, profile, graph), std::back_inserter(reached));
    std::vector<Neighbour> fitting;
    std::ranges::copy_if(reached, std::back_inserter(fitting), &Neighbour::fits);
    if (!fitting.empty()) return fitting;
    std::ranges::stable_sort(reached, {}, &Neighbour::peak_bytes);
    if (reached.size() > kept_neighbours) reached.resize(kept_neighbours);
    from = std::move(reached);
  }
  return {};
}

// Puts a neighbour with room before a tight one that is hardly faster.
void prefer_room(std::vector<Neighbour>& better, const std::optional<PlanError>& step_error) {
  std::vector<Contender> contenders;
  for (const Neighbour& other : better)
    contenders.push_back({.seconds = other.step_seconds,
                          .verdict = other.is_tight ? MemoryVerdict::tight : MemoryVerdict::fits,
                          .step_error = step_error});
  const auto first = first_choice(contenders);
  if (first)
    std::rotate(better.begin(), better.begin() + static_cast<std::ptrdiff_t>(*first),
                better.begin() + static_cast<std::ptrdiff_t>(*first) + 1);
}

bool differ_in_loops_alone(const Neighbour& left, const Neighbour& right) {
  Recipe other = left.recipe;
  other.pipeline.loops = right.recipe.pipeline.loops;
  return other == right.recipe;
}

// The first of those that differ in pipeline.loops alone: the others would take the places of other orders.
void keep_one_per_order(std::vector<Neighbour>& better) {
  std::vector<Neighbour> kept;
  for (Neighbour& other : better)
    if (std::ranges::none_of(kept, [&](const Neighbour& first) { return differ_in_loops_alone(first, other); }))
      kept.push_back(std::move(other));
  better = std::move(kept);
}

// The best of those that help, as what --set takes.
std::vector<PlanSuggestion> best_changes(std::vector<Neighbour> better, const PlanReport& report,
                                         const ClusterProfile& profile) {
  // A change that does not fit helps nobody; if the plan does not fit yet, any change that fits does.
  std::erase_if(better, [&](const Neighbour& other) {
    return !other.fits || (report.fits && other.step_seconds >= worthwhile * report.step.seconds);
  });
  std::ranges::stable_sort(better, {}, &Neighbour::step_seconds);
  const auto same = [](const Neighbour& left, const Neighbour& right) { return left.prices_like(right); };
  better.erase(std::unique(better.begin(), better.end(), same), better.end());
  prefer_room(better, profile.accuracy.step);
  keep_one_per_order(better);
  if (better.size() > suggestion_count) better.resize(suggestion_count);
  std::vector<PlanSuggestion> suggestions;
  for (const Neighbour& other : better)
    suggestions.push_back(
        {change_words(report.recipe, other.recipe), other.step_seconds, other.peak_bytes, true, other.is_tight});
  return suggestions;
}

}  // namespace

std::vector<PlanSuggestion> suggest(const Plan& plan, const ClusterProfile& profile) {
  const PlanReport& report = plan.report;
  const std::shared_ptr<const Graph>& graph = plan.layout->partition().graph;
  return best_changes(report.fits ? price_neighbours(report.recipe, report.mesh, profile, graph)
                                  : fitting_neighbours(plan, profile, graph),
                      report, profile);
}

std::vector<PlanSuggestion> suggest_host(const Plan& plan, const ClusterProfile& profile) {
  const Partition& partition = plan.layout->partition();
  std::vector<Recipe> choices = offload_choices(partition.recipe, partition.mesh, profile);
  const auto best = [&] {
    return best_changes(price(choices, plan.report.mesh, profile, partition.graph), plan.report, profile);
  };
  std::vector<PlanSuggestion> changes = best();
  if (!changes.empty()) return changes;
  for (Recipe& choice : choices) recompute_in_all_layers(choice.memory, Recompute::full);
  return best();
}

}  // namespace llmtrain
