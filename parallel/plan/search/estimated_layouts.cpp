// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/search/estimated_layouts.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/memory/memory_model.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/search/layout_bounds.h"
#include "parallel/plan/search/layout_estimates.h"

namespace llmtrain {
namespace {

// Estimates order layouts no more precisely than this.
constexpr double slack = 1.05;

// The points that no other point beats in both, by their seconds.
class Front {
 public:
  void add(double seconds, double bytes) {
    if (least_bytes(seconds) <= bytes) return;
    const auto place = points_.insert_or_assign(seconds, bytes).first;
    for (auto next = std::next(place); next != points_.end() && next->second >= bytes;) next = points_.erase(next);
  }

  bool is_beyond(const LayoutBound& bound) const {
    if (points_.empty()) return false;
    return bound.seconds > slowest_of_front * points_.begin()->first ||
           least_bytes(bound.seconds / slack) <= bound.bytes;
  }

 private:
  // The least memory among the points that are at most so slow.
  double least_bytes(double seconds) const {
    const auto next = points_.upper_bound(seconds);
    return next == points_.begin() ? std::numeric_limits<double>::infinity() : std::prev(next)->second;
  }

  std::map<double, double> points_;
};

// Layouts that differ in their stages alone.
struct Group {
  std::size_t degrees = 0;  // index
  ShardingChoice sharding;
  PassChoice passes;
  LayoutBounds::StatePrice states;
  LayoutBound bound;
};

class Estimation {
 public:
  Estimation(const LayoutSpace& space, const ClusterProfile& profile, std::int64_t devices_per_node,
             const std::shared_ptr<const Graph>& graph)
      : space_(space),
        profile_(profile),
        devices_per_node_(devices_per_node),
        graph_(graph),
        bounds_(space, profile, devices_per_node, graph),
        degrees_(space.degrees()) {}

  EstimatedLayouts run() {
    for (std::size_t degrees = 0; degrees < degrees_.size(); ++degrees) add_groups(degrees);
    // What may be fast comes first, and rules out most of the others.
    std::ranges::stable_sort(groups_, {}, [](const Group& group) { return group.bound.seconds; });
    for (const Group& group : groups_) expand(group);
    std::ranges::stable_sort(result_.layouts, {}, &EstimatedLayout::seconds);
    return std::move(result_);
  }

 private:
  bool fits(double bytes) const { return profile_.device.memory_bytes <= 0 || bytes <= profile_.device.memory_bytes; }

  void add_groups(std::size_t index) {
    const DegreeChoice& degrees = degrees_[index];
    std::vector<PassChoice> passes;
    for (const ShardingChoice& sharding : space_.shardings(degrees)) {
      std::map<Fp8Level, std::optional<LayoutBounds::StatePrice>> states;
      for (const Fp8Level level : space_.fp8_levels()) states[level] = bounds_.state_price(degrees, sharding, level);
      // Passes are priced once it is known that the degrees are legal.
      if (passes.empty() && states.begin()->second) passes = different_passes(degrees);
      for (const PassChoice& choice : passes) {
        const auto& price = states[choice.fp8_level];
        if (!price) continue;
        const LayoutBound bound = bounds_.of(degrees, sharding, choice, *price);
        result_.considered += std::ssize(space_.stages(degrees, sharding, choice.micro));
        if (fits(bound.bytes)) groups_.push_back({index, sharding, choice, *price, bound});
      }
    }
  }

  // Without recomputation that changes nothing.
  std::vector<PassChoice> different_passes(const DegreeChoice& degrees) {
    std::vector<PassChoice> passes;
    for (const PassChoice& choice : space_.passes(degrees)) {
      const auto is_same = [&](const PassChoice& other) {
        return other.micro == choice.micro && other.fp8_level == choice.fp8_level &&
               bounds_.pass_price(degrees, other) == bounds_.pass_price(degrees, choice);
      };
      if (std::ranges::none_of(passes, is_same)) passes.push_back(choice);
    }
    return passes;
  }

  void expand(const Group& group) {
    if (front_.is_beyond(group.bound)) return;
    const DegreeChoice& degrees = degrees_[group.degrees];
    for (const StageChoice& stages : space_.stages(degrees, group.sharding, group.passes.micro)) {
      const LayoutChoice choice{degrees, group.sharding, group.passes, stages};
      const LayoutBound bound = bounds_.of(choice, group.states);
      if (fits(bound.bytes) && !front_.is_beyond(bound)) estimate(choice);
    }
  }

  void estimate(const LayoutChoice& choice) {
    try {
      Recipe layout = space_.recipe(choice);
      const LayoutBound with_more = add(choice, layout);
      const bool may_keep = space_.may_keep_stages() && fits(with_more.bytes) && !front_.is_beyond(with_more);
      if (may_keep) add_most_kept(choice, std::move(layout), with_more.bytes);
    } catch (const Error&) {
      // The space does not know every rule of recipes and meshes; what they refuse is not a layout.
    }
  }

  // With the states of as many stages on the device as have room, where all of them take as much.
  void add_most_kept(const LayoutChoice& choice, Recipe layout, double bytes) {
    std::int64_t& stay = layout.memory.offload.resident_stages;
    const std::int64_t own = stay, most = choice.stages.loops - 1;
    if (most <= own) return;
    stay = most;
    const double needed = add(choice, layout).bytes;
    if (fits(needed)) return;
    const double share = (profile_.device.memory_bytes - bytes) / (needed - bytes);
    stay = own + static_cast<std::int64_t>(share * static_cast<double>(most - own));
    if (stay > own) add(choice, layout);
  }

  // Adds a layout with its stages that stay, where it fits. Returns about what it takes at the least with more of them.
  LayoutBound add(const LayoutChoice& choice, const Recipe& layout) {
    const Partition partition = partition_for(layout, profile_, devices_per_node_, graph_);
    ++result_.estimated;
    const PricedLayout priced(partition, profile_);
    const double bytes = estimate_bytes(partition, make_pass_memory(priced));
    if (!fits(bytes)) return {0, bytes};
    const StepCosts costs = make_step_costs(priced);
    const double seconds = estimate_seconds(partition.shape, costs);
    front_.add(seconds, bytes);
    result_.layouts.push_back({choice, seconds, bytes});
    return {seconds - *std::ranges::max_element(costs.optimizer_seconds), bytes};
  }

  const LayoutSpace& space_;
  const ClusterProfile& profile_;
  std::int64_t devices_per_node_;
  const std::shared_ptr<const Graph>& graph_;
  LayoutBounds bounds_;
  std::vector<DegreeChoice> degrees_;
  std::vector<Group> groups_;
  Front front_;
  EstimatedLayouts result_;
};

}  // namespace

EstimatedLayouts estimate_layouts(const LayoutSpace& space, const ClusterProfile& profile,
                                  std::int64_t devices_per_node, const std::shared_ptr<const Graph>& graph) {
  return Estimation(space, profile, devices_per_node, graph).run();
}

}  // namespace llmtrain
