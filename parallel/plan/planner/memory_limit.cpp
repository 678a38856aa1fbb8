// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/page/text_layout.h"
#include "parallel/plan/planner/kept_stages.h"
#include "parallel/plan/planner/limit_chooser.h"
#include "parallel/plan/planner/offload_choices.h"
#include "parallel/plan/planner/piece_counts.h"
#include "parallel/plan/planner/planner.h"

namespace llmtrain {
namespace {

// The buffers of the fullest rank, by size.
std::string buffers_text(const Plan& plan) {
  const PlannedRank& rank = fullest_rank(plan.report);
  std::vector<std::pair<double, std::string>> buffers;
  for (const MemoryName& name : memory_names)
    if (rank.bytes[name.category] > 0) buffers.emplace_back(rank.bytes[name.category], name.label);
  std::ranges::sort(buffers, std::greater{});
  std::string text = fmt::format("rank {}, ", rank.rank);
  for (std::size_t i = 0; i < std::min<std::size_t>(buffers.size(), 4); ++i)
    text += fmt::format("{}{} of {}", i > 0 ? ", " : "", bytes_text(buffers[i].first), buffers[i].second);
  return text;
}

// In bytes of a device.
double device_limit(double limit, const ClusterProfile& cluster) {
  if (limit > 1) return limit;
  if (cluster.device.memory_bytes <= 0)
    throw Error(ExitCode::bad_recipe,
                fmt::format("/memory/limit: {} is a share of the device's memory, which profile {} does not state; "
                            "use bytes",
                            limit, cluster.name));
  return limit * cluster.device.memory_bytes;
}

Recipe without_limit(Recipe recipe) {
  recipe.memory.limit.reset();
  return recipe;
}

// The fastest recipe within a limit that moves as little to the host as it can: what goes there needs memory that no
// profile states.
class HostChooser {
 public:
  HostChooser(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node)
      : cluster_(cluster), devices_per_node_(devices_per_node), here_(recipe, cluster, devices_per_node) {}

  LimitChooser& here() { return here_; }
  std::optional<Recipe> within(double limit) {
    if (std::optional<Recipe> best = here_.within(limit)) return keeping_more(*std::move(best), limit).recipe;
    std::optional<KeptStages> best;
    for (LimitChooser& chooser : there()) {
      if (best && chooser.least_seconds() >= best->seconds) continue;
      std::optional<Recipe> chosen = chooser.within(limit);
      if (!chosen) continue;
      KeptStages priced = keeping_more(*std::move(chosen), limit);
      if (!best || priced.seconds < best->seconds) best = std::move(priced);
    }
    return best ? std::optional(std::move(best->recipe)) : std::nullopt;
  }
  // With room for all that the recipe lets stay.
  Plan roomiest() {
    return here_.planned(
        keeping_more(here_.largest().layout->recipe(), std::numeric_limits<double>::infinity()).recipe);
  }
  // That needs least.
  Plan smallest() {
    Plan least = here_.planned(here_.smallest());
    for (LimitChooser& chooser : there()) {
      Plan plan = chooser.planned(chooser.smallest());
      if (fullest_rank(plan.report).peak_bytes < fullest_rank(least.report).peak_bytes) least = std::move(plan);
    }
    return least;
  }

 private:
  // The recipe, which is within the limit, with the most stages on the device that have room there.
  KeptStages keeping_more(Recipe recipe, double limit) {
    const Plan plan = here_.planned(recipe);
    return keep_more_stages(std::move(recipe), plan.report.step.seconds, plan.layout->mesh(),
                            [&](const Recipe& staged) -> std::optional<double> {
                              const PlanReport report = here_.planned(staged).report;
                              if (fullest_rank(report).peak_bytes > limit) return std::nullopt;
                              return report.step.seconds;
                            });
  }

  // Made when they are first needed.
  std::vector<LimitChooser>& there() {
    if (there_) return *there_;
    there_.emplace();
    const Plan& largest = here_.largest();
    for (const Recipe& recipe : offload_choices(largest.layout->recipe(), largest.layout->mesh(), cluster_)) {
      try {
        there_->emplace_back(recipe, cluster_, devices_per_node_);
      } catch (const Error&) {
        // What the model or the layout does not allow is no choice.
      }
    }
    return *there_;
  }

  const ClusterProfile& cluster_;
  std::int64_t devices_per_node_;
  LimitChooser here_;
  std::optional<std::vector<LimitChooser>> there_;
};

// The same of bodies, in the fewest pieces of memory.chunks that suffice, unless the recipe says how many.
class PieceChooser {
 public:
  PieceChooser(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node)
      : recipe_(recipe), cluster_(cluster), devices_per_node_(devices_per_node), pieces_{recipe.memory.chunks} {
    for (const std::int64_t count : more_pieces(recipe)) pieces_.push_back(count);
  }

  LimitChooser& whole() { return chooser(pieces_.front()).here(); }
  Plan roomiest() { return chooser(pieces_.front()).roomiest(); }
  std::optional<Recipe> within(double limit) {
    for (const std::int64_t pieces : pieces_)
      if (std::optional<Recipe> chosen = chooser(pieces).within(limit)) return chosen;
    return std::nullopt;
  }
  // The plan that needs least: in the most pieces, or in none.
  Plan smallest() {
    Plan whole = chooser(pieces_.front()).smallest();
    if (pieces_.size() == 1) return whole;
    Plan cut = chooser(pieces_.back()).smallest();
    return fullest_rank(cut.report).peak_bytes < fullest_rank(whole.report).peak_bytes ? cut : whole;
  }

 private:
  // Made when it is first needed.
  HostChooser& chooser(std::int64_t pieces) {
    const auto known = choosers_.find(pieces);
    if (known != choosers_.end()) return known->second;
    Recipe recipe = recipe_;
    recipe.memory.chunks = pieces;
    return choosers_.try_emplace(pieces, recipe, cluster_, devices_per_node_).first->second;
  }

  Recipe recipe_;
  const ClusterProfile& cluster_;
  std::int64_t devices_per_node_;
  std::vector<std::int64_t> pieces_;
  std::map<std::int64_t, HostChooser> choosers_;
};

}  // namespace

double limit_of_rank(const Recipe& recipe, const ClusterProfile& cluster, const Mesh& mesh) {
  return device_limit(recipe.memory.limit.value(), cluster) / share_devices(cluster, mesh).ranks_per_device;
}

LimitedDevice as_device(const Recipe& recipe, const ClusterProfile& cluster) {
  LimitedDevice limited{without_limit(recipe), cluster};
  if (!recipe.memory.limit) return limited;
  const double limit = device_limit(*recipe.memory.limit, cluster), stated = cluster.device.memory_bytes;
  limited.cluster.device.memory_bytes = stated > 0 ? std::min(stated, limit) : limit;
  return limited;
}

Recipe settle_memory_limit(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node) {
  if (!recipe.memory.limit) return recipe;
  PieceChooser chooser(without_limit(recipe), cluster, devices_per_node);
  const Mesh& mesh = chooser.whole().largest().layout->mesh();
  const double limit = limit_of_rank(recipe, cluster, mesh);
  if (std::optional<Recipe> chosen = chooser.within(limit)) return *std::move(chosen);
  const Plan smallest = chooser.smallest();
  throw Error(
      ExitCode::bad_recipe,
      fmt::format("/memory/limit: {} is {} for each rank, and the least that a plan needs is {} ({:.0f} bytes of a "
                  "device): {}; use a smaller batch.micro, more ranks that share the model, or a higher limit",
                  *recipe.memory.limit, bytes_text(limit), bytes_text(fullest_rank(smallest.report).peak_bytes),
                  std::ceil(fullest_rank(smallest.report).peak_bytes * share_devices(cluster, mesh).ranks_per_device),
                  buffers_text(smallest)));
}

std::vector<LimitPoint> limit_curve(const Recipe& recipe, const ClusterProfile& cluster,
                                    std::int64_t devices_per_node) {
  PieceChooser chooser(without_limit(recipe), cluster, devices_per_node);
  const double least = fullest_rank(chooser.smallest().report).peak_bytes,
               most = fullest_rank(chooser.roomiest().report).peak_bytes;
  constexpr int points = 5;
  std::vector<LimitPoint> curve;
  for (int i = 0; i < points; ++i) {
    const double limit = i + 1 == points ? most : least + (most - least) * i / (points - 1);
    const std::optional<Recipe> chosen = chooser.within(limit);
    if (!chosen) continue;
    const Plan plan = chooser.whole().planned(*chosen);
    // With the states on the host a rank may need far less than several of the limits.
    if (curve.empty() || fullest_rank(plan.report).peak_bytes != curve.back().peak_bytes)
      curve.push_back({fullest_rank(plan.report).peak_bytes, plan.report.step.seconds});
  }
  return curve;
}

}  // namespace llmtrain
