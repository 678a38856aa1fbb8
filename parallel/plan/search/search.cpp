// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/search/search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "parallel/plan/planner/kept_stages.h"
#include "parallel/plan/planner/memory_limit.h"
#include "parallel/plan/planner/neighbours.h"
#include "parallel/plan/planner/offload_choices.h"
#include "parallel/plan/planner/piece_counts.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/planner/uniform_recompute.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/search/estimated_layouts.h"
#include "parallel/plan/search/layout_space.h"

namespace llmtrain {
namespace {

// Simulations take a hundred times as long as estimates: only promising layouts are worth one.
constexpr std::size_t most_by_time = 200;    // of the fastest by the estimate
constexpr std::size_t most_of_family = 40;   // of them, with the same degrees: estimates may mislead about all of these
constexpr std::size_t most_by_memory = 100;  // on the front of the estimates
constexpr double optimism = 1.03;            // steps are faster than their estimates by no more than this
constexpr int most_rounds = 20;              // from a layout to its neighbours

// That of layouts whose layers all recompute the same, as all that a search visits but perhaps the recipe's own.
std::shared_ptr<const Graph> unmarked_graph(const Partition& start, const ClusterProfile& cluster) {
  if (start.recipe.memory.recompute_of_layers.empty()) return start.graph;
  Recipe recipe = start.recipe;
  recompute_in_all_layers(recipe.memory, recipe.memory.recompute);
  return partition_for(recipe, cluster, start.mesh.devices_per_node).graph;
}

void add(SearchResult&& part, SearchResult& whole) {
  std::ranges::move(part.front, std::back_inserter(whole.front));
  whole.layouts += part.layouts;
  whole.estimated += part.estimated;
  whole.simulated += part.simulated;
}

void keep_front(SearchResult& result, const Accuracy& accuracy) {
  auto& front = result.front;
  std::ranges::stable_sort(front, {}, &SearchCandidate::step_seconds);
  std::vector<SearchCandidate> kept;
  for (SearchCandidate& candidate : front)
    if (kept.empty() || candidate.peak_bytes < kept.back().peak_bytes) kept.push_back(std::move(candidate));
  front = std::move(kept);
  result.best = best_of(front, accuracy);
}

class Search {
 public:
  Search(const Recipe& recipe, const ClusterProfile& cluster)
      : recipe_(recipe),
        cluster_(cluster),
        start_(partition_for(recipe, cluster, devices_per_node(recipe, cluster))),
        profile_(share_devices(cluster, start_.mesh)),
        graph_(unmarked_graph(start_, cluster)),
        space_(recipe_, start_.mesh, *graph_) {}

  // `to_beat`: only layouts are kept that are faster.
  SearchResult run(double to_beat = std::numeric_limits<double>::infinity()) {
    to_beat_ = fastest_ = to_beat;
    EstimatedLayouts estimates = estimate_layouts(space_, profile_, start_.mesh.devices_per_node, graph_);
    result_.layouts = estimates.considered;
    result_.estimated = estimates.estimated;
    estimates_ = std::move(estimates.layouts);
    simulate(recipe_);
    simulate_fastest();
    if (std::isinf(to_beat_)) simulate_smallest();
    keep_stages();
    keep_front(result_, cluster_.accuracy);
    for (int round = 0; round < most_rounds && try_neighbours(); ++round) {
    }
    return std::move(result_);
  }

 private:
  void simulate_fastest() {
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::size_t> of_family;
    std::size_t count = 0;
    for (const EstimatedLayout& estimate : estimates_) {
      if (count == most_by_time || estimate.seconds > fastest_ * optimism) return;
      const DegreeChoice& degrees = estimate.choice.degrees;
      if (of_family[{degrees.tensor, degrees.context, degrees.pipeline}]++ >= most_of_family) continue;
      ++count;
      simulate(space_.recipe(estimate.choice));
      keep_stages();
    }
  }

  void simulate_smallest() {
    double least = std::numeric_limits<double>::infinity();
    std::size_t count = 0;
    for (const EstimatedLayout& estimate : estimates_) {
      // In order of time, a layout smaller than all faster ones is on the front of time and memory.
      if (estimate.bytes >= least) continue;
      if (++count > most_by_memory) return;
      least = estimate.bytes;
      simulate(space_.recipe(estimate.choice));
    }
  }

  // From the fastest layout and from the best. Returns whether one of these is another one now.
  bool try_neighbours() {
    if (result_.front.empty()) return false;
    const SearchCandidate fastest = result_.front.front(), best = result_.front[*result_.best];
    for (const SearchCandidate& candidate : {fastest, best}) {
      // As many stages as have room stay with each of them in turn.
      Recipe from = candidate.recipe;
      from.memory.offload.resident_stages = recipe_.memory.offload.resident_stages;
      for (const Recipe& other : neighbours(from, partition_of(from).mesh))
        // What the search leaves as it is.
        if (other.kernels == recipe_.kernels && other.parallel.overlap == recipe_.parallel.overlap) simulate(other);
      try_room_on_host(from);
    }
    keep_stages();
    keep_front(result_, cluster_.accuracy);
    return result_.front.front().step_seconds < fastest.step_seconds ||
           result_.front[*result_.best].recipe != best.recipe;
  }

  // What is on the host takes time, which is worth its room where that spares more of recomputing.
  void try_room_on_host(const Recipe& from) {
    const Recompute recompute = from.memory.recompute;
    if (recompute == Recompute::none) return;
    for (Recipe choice : offload_choices(from, partition_of(from).mesh, cluster_)) {
      for (const Recompute less : recompute_choices(from.parallel)) {
        if (less == recompute) break;
        recompute_in_all_layers(choice.memory, less);
        simulate(choice);
      }
    }
  }

  struct Outcome {
    MemoryVerdict verdict = MemoryVerdict::does_not_fit;
    double seconds = 0;
  };

  Outcome simulate(const Recipe& layout) {
    const auto known = std::ranges::find(simulated_, layout, &std::pair<Recipe, Outcome>::first);
    if (known != simulated_.end()) return known->second;
    Outcome outcome;
    try {
      const PlanReport report = make_plan(std::make_shared<const Layout>(partition_of(layout)), cluster_).report;
      ++result_.simulated;
      if (report.fits && report.mesh.world() == start_.mesh.world()) outcome = add_candidate(layout, report);
    } catch (const Error&) {
      // A neighbour that breaks a rule of recipes or cannot be laid out.
    }
    simulated_.emplace_back(layout, outcome);
    return outcome;
  }

  Outcome add_candidate(const Recipe& layout, const PlanReport& report) {
    const PlannedStep& step = report.step;
    const bool is_tight = verdict_of(report) == MemoryVerdict::tight;
    if (layout.memory.offload.optimizer == StatesPlace::host) {
      const double waits = step.exposed_communication_seconds - step.tensor_communication_seconds;
      with_host_.push_back({layout, step.seconds, step.seconds - step.optimizer_seconds - waits});
    }
    if (step.seconds < to_beat_) {
      fastest_ = std::min(fastest_, step.seconds);
      result_.front.push_back({layout, step.seconds, fullest_rank(report).peak_bytes, is_tight});
    }
    return {is_tight ? MemoryVerdict::tight : MemoryVerdict::fits, step.seconds};
  }

  // A layout that fits with optimizer states on the host.
  struct WithHost {
    Recipe layout;
    double seconds = 0;
    double least_seconds = 0;  // about what is left without updates and without waiting for copies
  };

  // Stages whose states stay shorten the step: with as many as have room, layouts of little memory may be the fastest.
  // Also with as many as leave room for the error of plans.
  void keep_stages() {
    std::vector<WithHost> candidates = std::exchange(with_host_, {});
    std::ranges::stable_sort(candidates, {}, &WithHost::least_seconds);
    for (const WithHost& candidate : candidates) {
      if (candidate.least_seconds >= fastest_) break;
      const Mesh mesh = partition_of(candidate.layout).mesh;
      for (const bool takes_tight : {true, false})
        keep_more_stages(candidate.layout, candidate.seconds, mesh, [&](const Recipe& staged) -> std::optional<double> {
          const auto [verdict, seconds] = simulate(staged);
          const bool has_room = verdict == MemoryVerdict::fits || (takes_tight && verdict == MemoryVerdict::tight);
          return has_room ? std::optional(seconds) : std::nullopt;
        });
    }
    // Those with more stages that stay.
    with_host_.clear();
  }

  // All layouts share the model, so the graph is built once; the ranks per node stay those of the recipe.
  Partition partition_of(const Recipe& layout) const {
    return partition_for(layout, cluster_, start_.mesh.devices_per_node, graph_);
  }

  const Recipe& recipe_;
  const ClusterProfile& cluster_;
  const Partition start_;
  const ClusterProfile profile_;
  const std::shared_ptr<const Graph> graph_;
  const LayoutSpace space_;
  std::vector<EstimatedLayout> estimates_;
  std::vector<std::pair<Recipe, Outcome>> simulated_;
  std::vector<WithHost> with_host_;  // of which it is open whether more of their stages should stay
  double fastest_ = std::numeric_limits<double>::infinity(), to_beat_ = fastest_;
  SearchResult result_;
};

// Also of layouts with keys that a search leaves as they are. `to_beat` as Search::run()'s.
void add_search(const Recipe& other, const ClusterProfile& cluster, SearchResult& result,
                double to_beat = std::numeric_limits<double>::infinity()) {
  try {
    add(Search(other, cluster).run(to_beat), result);
  } catch (const Error&) {
    // What a rule refuses, such as an optimizer that the host does not know.
  }
  keep_front(result, cluster.accuracy);
}

Recipe with_host(const Recipe& recipe, const OffloadRecipe& offload) {
  Recipe other = with_offload(recipe, offload);
  if (offload.weights) other.parallel.zero_stage = 3;
  return other;
}

// Layouts for which the host has room, where the devices have none.
SearchResult search_hosts(const Recipe& recipe, const ClusterProfile& cluster) {
  SearchResult result = Search(recipe, cluster).run();
  if (!result.front.empty()) return result;
  for (const OffloadRecipe& offload : more_on_host(recipe, cluster))
    add_search(with_host(recipe, offload), cluster, result);
  return result;
}

// With optimizer states on the host, or blocks in pieces, there may be room for other degrees that recompute less.
void try_instead_of_recomputing(const Recipe& recipe, const ClusterProfile& cluster, SearchResult& result) {
  const auto recomputed = [&] { return result.front.front().recipe.memory.recompute; };
  const auto fastest = [&] { return result.front.front().step_seconds; };
  for (const std::int64_t pieces : more_pieces(recipe)) {
    if (recomputed() == Recompute::none) return;
    Recipe other = recipe;
    other.memory.chunks = pieces;
    add_search(other, cluster, result, fastest());
  }
  // Less than whole layers costs less than the way to the host and back.
  const bool repeats_layers = recomputed() == Recompute::full || recomputed() == Recompute::computation;
  if (!repeats_layers || recipe.memory.offload.moves_states()) return;
  for (const OffloadRecipe& offload : more_on_host(recipe, cluster))
    if (offload.optimizer == StatesPlace::host && !offload.weights && !offload.activations && !offload.gradients)
      add_search(with_host(recipe, offload), cluster, result, fastest());
}

}  // namespace

std::optional<std::size_t> best_of(const std::vector<SearchCandidate>& candidates, const Accuracy& accuracy) {
  std::vector<Contender> contenders;
  for (const SearchCandidate& candidate : candidates)
    contenders.push_back({.seconds = candidate.step_seconds,
                          .verdict = candidate.is_tight ? MemoryVerdict::tight : MemoryVerdict::fits,
                          .step_error = accuracy.step});
  return first_choice(contenders);
}

SearchResult search_layouts(const Recipe& recipe, const ClusterProfile& profile) {
  if (recipe.memory.limit) {
    const LimitedDevice limited = as_device(recipe, profile);
    return search_layouts(limited.recipe, limited.cluster);
  }
  SearchResult result = search_hosts(recipe, profile);
  for (const std::int64_t pieces : more_pieces(recipe)) {
    if (!result.front.empty()) break;
    Recipe other = recipe;
    other.memory.chunks = pieces;
    add(search_hosts(other, profile), result);
    keep_front(result, profile.accuracy);
  }
  if (!result.front.empty()) try_instead_of_recomputing(recipe, profile, result);
  return result;
}

}  // namespace llmtrain
