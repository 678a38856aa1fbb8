// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/search.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/memory/memory_model.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/report/plan.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {
namespace {

// Estimates rank thousands of layouts per second; only the promising ones are worth a simulation.
constexpr std::size_t simulated_by_time = 100;    // the fastest layouts that fit, by the estimate
constexpr std::size_t simulated_by_memory = 100;  // further layouts on the estimates' front towards less memory

// A lower bound: the passes in flight and the largest stage's transient memory, without boundary tensors and the
// update's workspace.
double rank_bytes(const Partition& partition, const StepMemory& memory, std::int32_t rank) {
  double resident = memory.rank.total(), saved = 0, workspace = 0, gathered = 0;
  for (auto stage = static_cast<std::size_t>(rank); stage < memory.stages.size();
       stage += static_cast<std::size_t>(partition.mesh.pipeline)) {
    const StageMemory& bytes = memory.stages[stage];
    resident += bytes.resident.total();
    saved += bytes.saved_activations / partition.shape.loops;
    workspace = std::max(workspace, bytes.backward_workspace);
    gathered = std::max(gathered, bytes.gathered_weights + bytes.unreduced_gradients);
  }
  return resident + saved * passes_in_flight(partition.shape, rank) + workspace + gathered;
}

double estimate_bytes(const Partition& partition, const StepMemory& memory) {
  double largest = 0;
  for (std::int32_t rank = 0; rank < partition.shape.pipeline; ++rank)
    largest = std::max(largest, rank_bytes(partition, memory, rank));
  return largest;
}

// Seconds of gathers and reductions per step on the rank with the most of them.
double data_seconds(const ScheduleShape& shape, const StepCosts& costs) {
  // ZeRO-3 gathers a stage for the forwards and again for the backwards of each group of micro-batches; ZeRO-1 and -2
  // gather once, after the optimizer step.
  const double gathers = shape.sharding() == 3  ? 2.0 * shape.micro_batches / shape.gather_group()
                         : shape.sharding() > 0 ? 1
                                                : 0;
  const double reductions = shape.reduces ? static_cast<double>(shape.micro_batches) / shape.reduction_group() : 0;
  std::vector<double> busy(static_cast<std::size_t>(shape.pipeline));
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCost& cost = costs.stages[stage];
    busy[stage % busy.size()] += gathers * cost.gather_seconds + reductions * cost.reduce_seconds;
  }
  return *std::ranges::max_element(busy);
}

// Seconds of the traffic that passes cannot hide: what a rank's last reduction and its first gather of updated weights
// leave of a backward and a forward. Those of its other stages have more passes to hide behind.
double last_buckets(const ScheduleShape& shape, const StepCosts& costs) {
  double longest = 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(shape.pipeline); ++rank) {
    const StageCost& cost = costs.stages[rank];
    double shown = 0;
    if (shape.reduces)
      shown += std::max(cost.reduce_seconds / cost.buckets, cost.reduce_seconds - cost.backward.seconds);
    if (shape.sharding() > 0)
      shown += std::max(cost.gather_seconds / cost.buckets, cost.gather_seconds - cost.forward.seconds);
    longest = std::max(longest, shown);
  }
  return longest;
}

// The busiest rank's passes plus one stage's pass per other rank (the bubble of equal stages), or the data-parallel
// traffic if that takes longer; plus optimizer and overhead.
double estimate_seconds(const ScheduleShape& shape, const StepCosts& costs) {
  std::vector<double> busy(static_cast<std::size_t>(shape.pipeline));
  double passes = 0;
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const double pass = costs.stages[stage].forward.seconds + costs.stages[stage].backward.seconds;
    busy[stage % busy.size()] += pass * shape.micro_batches;
    passes += pass;
  }
  const double bubble = passes / static_cast<double>(costs.stages.size()) * static_cast<double>(busy.size() - 1);
  const double window = *std::ranges::max_element(busy) + bubble;
  const double data = data_seconds(shape, costs);
  return (costs.overlap ? std::max(window + last_buckets(shape, costs), data) : window + data) +
         *std::ranges::max_element(costs.optimizer_seconds) + costs.step_overhead_seconds;
}

class Search {
 public:
  Search(const Recipe& recipe, const ClusterProfile& cluster)
      : recipe_(recipe),
        cluster_(cluster),
        start_(partition_for(recipe, cluster, devices_per_node(recipe, cluster))),
        profile_(share_devices(cluster, start_.mesh)) {}

  SearchResult run() {
    for_each_layout(recipe_, start_.mesh, [this](const Recipe& layout) { consider(layout); });
    result_.fitting = static_cast<std::int64_t>(estimates_.size());
    for (const SearchCandidate& estimate : promising()) simulate_one(estimate.recipe);
    keep_front();
    return std::move(result_);
  }

 private:
  void consider(const Recipe& layout) {
    try {
      const Partition partition = partition_of(layout);
      ++result_.layouts;
      const double bytes =
          estimate_bytes(partition, make_pass_memory(partition, kernel_set(layout, profile_), profile_.program));
      // Optimistic bytes: what does not fit by them cannot fit.
      if (profile_.device.memory_bytes > 0 && bytes > profile_.device.memory_bytes) return;
      const StepCosts costs = make_step_costs(partition, profile_);
      estimates_.push_back({layout, estimate_seconds(partition.shape, costs), bytes});
    } catch (const Error&) {
      // for_each_layout() does not know every rule of recipes and meshes; what they refuse is not a layout.
    }
  }

  std::vector<SearchCandidate> promising() {
    std::ranges::stable_sort(estimates_, {}, &SearchCandidate::step_seconds);
    std::vector<SearchCandidate> chosen;
    // In order of time, a layout smaller than all faster ones is on the front of time and memory.
    std::optional<double> least;
    std::size_t smaller = 0;
    for (const SearchCandidate& estimate : estimates_) {
      const bool is_smaller = !least || estimate.peak_bytes < *least;
      if (is_smaller) least = estimate.peak_bytes;
      if (chosen.size() >= simulated_by_time && (!is_smaller || ++smaller > simulated_by_memory)) continue;
      chosen.push_back(estimate);
    }
    return chosen;
  }

  void simulate_one(const Recipe& layout) {
    const PlanReport report = make_plan(std::make_shared<const Layout>(partition_of(layout)), cluster_).report;
    ++result_.simulated;
    if (report.fits)
      result_.front.push_back(
          {layout, report.step.seconds, fullest_rank(report).peak_bytes, verdict_of(report) == MemoryVerdict::tight});
  }

  void keep_front() {
    auto& front = result_.front;
    std::ranges::stable_sort(front, {}, &SearchCandidate::step_seconds);
    std::vector<SearchCandidate> kept;
    for (SearchCandidate& candidate : front)
      if (kept.empty() || candidate.peak_bytes < kept.back().peak_bytes) kept.push_back(std::move(candidate));
    front = std::move(kept);
    result_.best = best_of(front, cluster_.accuracy);
  }

  // All layouts share the model, so the graph is built once; the ranks per node stay those of the recipe.
  Partition partition_of(const Recipe& layout) const {
    return partition_for(layout, cluster_, start_.mesh.devices_per_node, start_.graph);
  }

  const Recipe& recipe_;
  const ClusterProfile& cluster_;
  const Partition start_;
  const ClusterProfile profile_;
  std::vector<SearchCandidate> estimates_;  // of the layouts that fit by them
  SearchResult result_;
};

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
  return Search(recipe, profile).run();
}

}  // namespace llmtrain
