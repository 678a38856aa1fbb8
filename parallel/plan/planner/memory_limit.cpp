// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/graph/marks/recomputed_layers.h"
#include "core/page/text_layout.h"
#include "core/recipe/pipeline_order.h"
#include "parallel/plan/cost/priced_layout.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/planner/uniform_recompute.h"

namespace llmtrain {
namespace {

using Layers = std::vector<Recompute>;  // by layer of the model

// After so many corrections words for all layers are left.
constexpr int most_corrections = 12;

double fullest(const Plan& plan) {
  double most = 0;
  for (const PlannedRank& rank : plan.report.ranks) most = std::max(most, rank.peak_bytes);
  return most;
}

// What a layer recomputes instead of nothing: what that spares of the memory of its rank, and what it costs of the time
// of each of its micro-batches.
struct Change {
  std::size_t layer = 0;
  Recompute to{};
  double bytes = 0, seconds = 0;
};

// Plans of a recipe that differ in what layers recompute.
class LimitChooser {
 public:
  LimitChooser(Recipe recipe, const ClusterProfile& cluster, std::int64_t devices_per_node)
      : recipe_(std::move(recipe)), cluster_(cluster), devices_per_node_(devices_per_node) {
    for (const Recompute word : words()) uniform_.emplace(word, planned(word));
  }

  // The fastest that is at most `limit`; none where nothing is.
  std::optional<Recipe> within(double limit);
  // That needs least of what is tried: a word for all layers, but for single ones that need less with another.
  Recipe smallest() const;
  const Plan& largest() const { return uniform_.at(Recompute::none); }
  Plan planned(const Recipe& recipe) const {
    return make_plan(std::make_shared<const Layout>(partition_for(recipe, cluster_, devices_per_node_)), cluster_);
  }

 private:
  std::vector<Recompute> words() const {
    if (exchanges_activations(recipe_.parallel))
      return {Recompute::none, Recompute::selective, Recompute::computation, Recompute::full};
    return {Recompute::none, Recompute::selective, Recompute::full};
  }
  Recipe with(Recompute word) const {
    Recipe recipe = recipe_;
    recompute_in_all_layers(recipe.memory, word);
    return recipe;
  }
  Recipe with(const Layers& layers) const {
    Recipe recipe = recipe_;
    recipe.memory.recompute_of_layers = layers;
    return recipe;
  }
  Plan planned(Recompute word) const { return planned(with(word)); }

  std::size_t rank_of(std::size_t stage) const {
    return stage % static_cast<std::size_t>(largest().layout->mesh().pipeline);
  }
  void price_layers();
  // The changes of one rank that spare at least `bytes`, or all where that is too much.
  void choose(std::size_t rank, double bytes, Layers& layers) const;
  std::optional<Layers> mixed(double limit) const;
  // Takes back what is not needed after all, layer by layer.
  void give_back(double limit, Layers& layers) const;

  Recipe recipe_;
  const ClusterProfile& cluster_;
  std::int64_t devices_per_node_;
  std::map<Recompute, Plan> uniform_;
  std::map<std::size_t, std::vector<Change>> changes_;  // by rank, in the order of layers; from "none"
};

Recipe LimitChooser::smallest() const {
  const auto less = [](const auto& a, const auto& b) { return fullest(a.second) < fullest(b.second); };
  const auto& [word, plan] = *std::ranges::min_element(uniform_, less);
  double least = fullest(plan);
  Layers layers(static_cast<std::size_t>(layer_count(recipe_.model)), word);
  for (std::size_t layer = layers.size(); layer-- > 0;)
    for (const auto& [other, unused] : uniform_) {
      Layers changed = layers;
      changed[layer] = other;
      const double needed = fullest(planned(with(changed)));
      if (needed >= least) continue;
      least = needed;
      layers = std::move(changed);
    }
  return with(layers);
}

// A stage's time and a rank's memory are shared out among the layers by what each saves.
void LimitChooser::price_layers() {
  const Partition& partition = largest().layout->partition();
  const ClusterProfile profile = share_devices(cluster_, partition.mesh);
  const PricedLayout priced(partition, profile);
  const std::vector<std::size_t> layers = layers_of_blocks(*partition.graph);
  for (const auto& [word, plan] : uniform_) {
    if (word == Recompute::none) continue;
    std::vector<std::map<std::size_t, double>> spared(partition.stages.size());  // by layer, of one micro-batch
    std::map<std::size_t, double> of_rank;
    std::vector<double> of_stage(partition.stages.size());
    for (std::size_t stage = 0; stage < partition.stages.size(); ++stage)
      for (const std::size_t block : partition.stages[stage].blocks) {
        const OperatorList& operators = priced.operators.of(block);
        const double bytes = saved_bytes(operators, Recompute::none) - saved_bytes(operators, word);
        spared[stage][layers[block]] += bytes;
        of_stage[stage] += bytes;
        of_rank[rank_of(stage)] += bytes;
      }
    for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
      const std::size_t rank = rank_of(stage);
      const double peak = largest().report.ranks[rank].peak_bytes - plan.report.ranks[rank].peak_bytes;
      const double seconds = plan.costs.stages[stage].backward.seconds - largest().costs.stages[stage].backward.seconds;
      for (const auto& [layer, bytes] : spared[stage])
        if (bytes > 0 && peak > 0)
          changes_[rank].push_back(
              {layer, word, peak * bytes / of_rank[rank], std::max(0.0, seconds) * bytes / of_stage[stage]});
    }
  }
}

// Layer by layer the change that spares most per second beyond what has been chosen for the layer; for the last one the
// cheapest that is enough, at whichever point of this order the sum is least.
void LimitChooser::choose(std::size_t rank, double bytes, Layers& layers) const {
  const auto found = changes_.find(rank);
  if (found == changes_.end() || bytes <= 0) return;
  std::map<std::size_t, Change> chosen;
  const auto more = [&](const Change& change) {
    const auto before = chosen.find(change.layer);
    if (before == chosen.end()) return change;
    return Change{change.layer, change.to, change.bytes - before->second.bytes,
                  change.seconds - before->second.seconds};
  };
  double spared = 0, spent = 0, least = std::numeric_limits<double>::infinity();
  std::map<std::size_t, Change> best;
  while (spared < bytes) {
    const Change* next = nullptr;
    const Change* last = nullptr;
    for (const Change& change : found->second) {
      const Change added = more(change);
      if (added.bytes <= 0) continue;
      if (next == nullptr || added.bytes * more(*next).seconds > more(*next).bytes * added.seconds) next = &change;
      if (spared + added.bytes >= bytes && (last == nullptr || added.seconds < more(*last).seconds)) last = &change;
    }
    if (last != nullptr && spent + more(*last).seconds < least) {
      least = spent + more(*last).seconds;
      best = chosen;
      best[last->layer] = *last;
    }
    if (next == nullptr) break;
    const Change added = more(*next);
    spared += added.bytes;
    spent += added.seconds;
    chosen[next->layer] = *next;
  }
  for (const auto& [layer, change] : best.empty() ? chosen : best) layers[layer] = change.to;
}

// Estimates may be short of what a plan needs, which is then asked for on top.
std::optional<Layers> LimitChooser::mixed(double limit) const {
  const std::vector<PlannedRank>& ranks = largest().report.ranks;
  std::vector<double> asked;
  for (const PlannedRank& rank : ranks) asked.push_back(rank.peak_bytes - limit);
  const auto count = static_cast<std::size_t>(layer_count(recipe_.model));
  for (int round = 0; round < most_corrections; ++round) {
    Layers layers(count, Recompute::none);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) choose(rank, asked[rank], layers);
    const Plan plan = planned(with(layers));
    if (fullest(plan) <= limit) return layers;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      asked[rank] += std::max(0.0, plan.report.ranks[rank].peak_bytes - limit);
  }
  return std::nullopt;
}

// From the last layer on: what it saves is alive in its backward in any case.
void LimitChooser::give_back(double limit, Layers& layers) const {
  double seconds = planned(with(layers)).report.step.seconds;
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    if (layers[layer] == Recompute::none) continue;
    for (const auto& [word, unused] : uniform_) {
      Layers less = layers;
      less[layer] = word;
      if (word == layers[layer]) continue;
      const Plan plan = planned(with(less));
      if (fullest(plan) > limit || plan.report.step.seconds >= seconds) continue;
      seconds = plan.report.step.seconds;
      layers = std::move(less);
    }
  }
}

std::optional<Recipe> LimitChooser::within(double limit) {
  if (fullest(largest()) <= limit) return with(Recompute::none);
  if (changes_.empty()) price_layers();
  std::optional<Layers> layers = mixed(limit);
  if (!layers) {
    const Recipe small = smallest();
    if (fullest(planned(small)) > limit) return std::nullopt;
    layers = small.memory.recompute_of_layers;
  }
  give_back(limit, *layers);
  Recipe best = with(*layers);
  double least = planned(best).report.step.seconds;
  for (const auto& [word, plan] : uniform_) {
    if (fullest(plan) > limit || plan.report.step.seconds >= least) continue;
    best = with(word);
    least = plan.report.step.seconds;
  }
  return best;
}

// The buffers of the fullest rank, by size.
std::string buffers_text(const Plan& plan) {
  const PlannedRank& rank = *std::ranges::max_element(plan.report.ranks, {}, &PlannedRank::peak_bytes);
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

}  // namespace

LimitedDevice as_device(const Recipe& recipe, const ClusterProfile& cluster) {
  LimitedDevice limited{without_limit(recipe), cluster};
  if (!recipe.memory.limit) return limited;
  const double limit = device_limit(*recipe.memory.limit, cluster), stated = cluster.device.memory_bytes;
  limited.cluster.device.memory_bytes = stated > 0 ? std::min(stated, limit) : limit;
  return limited;
}

Recipe settle_memory_limit(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node) {
  if (!recipe.memory.limit) return recipe;
  LimitChooser chooser(without_limit(recipe), cluster, devices_per_node);
  const double sharing = share_devices(cluster, chooser.largest().layout->mesh()).ranks_per_device;
  const double limit = device_limit(*recipe.memory.limit, cluster) / sharing;
  if (std::optional<Recipe> chosen = chooser.within(limit)) return *std::move(chosen);
  const Plan smallest = chooser.planned(chooser.smallest());
  throw Error(
      ExitCode::bad_recipe,
      fmt::format("/memory/limit: {} is {} for each rank, and the least that a plan needs is {} ({:.0f} bytes of a "
                  "device): {}; use a smaller batch.micro, more ranks that share the model, or a higher limit",
                  *recipe.memory.limit, bytes_text(limit), bytes_text(fullest(smallest)),
                  std::ceil(fullest(smallest) * sharing), buffers_text(smallest)));
}

std::vector<LimitPoint> limit_curve(const Recipe& recipe, const ClusterProfile& cluster,
                                    std::int64_t devices_per_node) {
  LimitChooser chooser(without_limit(recipe), cluster, devices_per_node);
  const double least = fullest(chooser.planned(chooser.smallest())), most = fullest(chooser.largest());
  constexpr int points = 5;
  std::vector<LimitPoint> curve;
  for (int i = 0; i < points; ++i) {
    const double limit = i + 1 == points ? most : least + (most - least) * i / (points - 1);
    const std::optional<Recipe> chosen = chooser.within(limit);
    if (!chosen) continue;
    const Plan plan = chooser.planned(*chosen);
    curve.push_back({fullest(plan), plan.report.step.seconds});
  }
  return curve;
}

}  // namespace llmtrain
