// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/limit_chooser.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "core/graph/marks/recomputed_layers.h"
#include "core/recipe/pipeline_order.h"
#include "parallel/plan/cost/priced_layout.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/planner/uniform_recompute.h"

namespace llmtrain {
namespace {

// After so many corrections words for all layers are left.
constexpr int most_corrections = 12;

// The most that a rank needs.
double peak_of(const Plan& plan) { return fullest_rank(plan.report).peak_bytes; }

std::size_t rank_of(const Plan& plan, std::size_t stage) {
  return stage % static_cast<std::size_t>(plan.layout->mesh().pipeline);
}

}  // namespace

LimitChooser::LimitChooser(Recipe recipe, const ClusterProfile& cluster, std::int64_t devices_per_node)
    : recipe_(std::move(recipe)),
      cluster_(cluster),
      devices_per_node_(devices_per_node),
      words_(recompute_choices(recipe_.parallel)) {
  uniform(Recompute::none);
}

Plan LimitChooser::planned(const Recipe& recipe) const {
  return make_plan(std::make_shared<const Layout>(partition_for(recipe, cluster_, devices_per_node_)), cluster_);
}

const Plan& LimitChooser::uniform(Recompute word) {
  const auto known = uniform_.find(word);
  return known != uniform_.end() ? known->second : uniform_.emplace(word, planned(with(word))).first->second;
}

Recipe LimitChooser::with(Recompute word) const {
  Recipe recipe = recipe_;
  recompute_in_all_layers(recipe.memory, word);
  return recipe;
}

Recipe LimitChooser::with(const Layers& layers) const {
  if (std::ranges::count(layers, layers.front()) == std::ssize(layers)) return with(layers.front());
  Recipe recipe = recipe_;
  recipe.memory.recompute_of_layers = layers;
  return recipe;
}

const LimitChooser::Layers& LimitChooser::least_layers() {
  if (least_layers_) return *least_layers_;
  const Recompute word = *std::ranges::min_element(words_, {}, [&](Recompute each) { return peak_of(uniform(each)); });
  double least = peak_of(uniform(word));
  Layers layers(static_cast<std::size_t>(layer_count(recipe_.model)), word);
  for (std::size_t layer = layers.size(); layer-- > 0;)
    for (const Recompute other : words_) {
      Layers changed = layers;
      changed[layer] = other;
      const double needed = peak_of(planned(with(changed)));
      if (needed >= least) continue;
      least = needed;
      layers = std::move(changed);
    }
  return least_layers_.emplace(std::move(layers));
}

void LimitChooser::price_layers() {
  for (const Recompute word : words_)
    if (word != Recompute::none) price_word(word);
}

// A stage's time and a rank's memory are shared out among the layers by what each saves.
void LimitChooser::price_word(Recompute word) {
  const Plan &plan = uniform(word), &without = largest();
  const Partition& partition = without.layout->partition();
  const ClusterProfile profile = share_devices(cluster_, partition.mesh);
  const PricedLayout priced(partition, profile);
  const std::vector<std::size_t> layers = layers_of_blocks(*partition.graph);
  std::vector<std::map<std::size_t, double>> spared(partition.stages.size());  // by layer, of one micro-batch
  std::map<std::size_t, double> of_rank;
  std::vector<double> of_stage(partition.stages.size());
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage)
    for (const std::size_t block : partition.stages[stage].blocks) {
      const OperatorList& operators = priced.operators.of(block);
      const double bytes = saved_bytes(operators, Recompute::none) - saved_bytes(operators, word);
      spared[stage][layers[block]] += bytes;
      of_stage[stage] += bytes;
      of_rank[rank_of(without, stage)] += bytes;
    }
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
    const std::size_t rank = rank_of(without, stage);
    const double peak = without.report.ranks[rank].peak_bytes - plan.report.ranks[rank].peak_bytes;
    const double seconds = plan.costs.stages[stage].backward.seconds - without.costs.stages[stage].backward.seconds;
    for (const auto& [layer, bytes] : spared[stage])
      if (bytes > 0 && peak > 0)
        changes_[rank].push_back(
            {layer, word, peak * bytes / of_rank[rank], std::max(0.0, seconds) * bytes / of_stage[stage]});
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
std::optional<LimitChooser::Layers> LimitChooser::mixed(double limit) {
  const std::vector<PlannedRank>& ranks = largest().report.ranks;
  std::vector<double> asked;
  for (const PlannedRank& rank : ranks) asked.push_back(rank.peak_bytes - limit);
  const auto count = static_cast<std::size_t>(layer_count(recipe_.model));
  for (int round = 0; round < most_corrections; ++round) {
    Layers layers(count, Recompute::none);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) choose(rank, asked[rank], layers);
    const Plan plan = planned(with(layers));
    if (peak_of(plan) <= limit) return layers;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      asked[rank] += std::max(0.0, plan.report.ranks[rank].peak_bytes - limit);
  }
  return std::nullopt;
}

// From the last layer on: what it saves is alive in its backward in any case.
void LimitChooser::quicken(double limit, Layers& layers) const {
  double seconds = planned(with(layers)).report.step.seconds;
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    if (layers[layer] == Recompute::none && none_is_fastest()) continue;
    for (const Recompute word : words_) {
      if (word == layers[layer]) continue;
      Layers less = layers;
      less[layer] = word;
      const Plan plan = planned(with(less));
      if (peak_of(plan) > limit || plan.report.step.seconds >= seconds) continue;
      seconds = plan.report.step.seconds;
      layers = std::move(less);
    }
  }
}

std::optional<Recipe> LimitChooser::within(double limit) {
  const bool fits = peak_of(largest()) <= limit;
  if (fits && none_is_fastest()) return with(Recompute::none);
  const auto count = static_cast<std::size_t>(layer_count(recipe_.model));
  std::optional<Layers> best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](const Plan& plan, const Layers& layers) {
    if (peak_of(plan) > limit || plan.report.step.seconds >= least) return;
    best = layers;
    least = plan.report.step.seconds;
  };
  for (const Recompute word : words_) consider(uniform(word), Layers(count, word));
  if (!fits) {
    if (changes_.empty()) price_layers();
    if (const std::optional<Layers> layers = mixed(limit)) consider(planned(with(*layers)), *layers);
  }
  if (!best) {
    if (peak_of(planned(smallest())) > limit) return std::nullopt;
    best = least_layers();
  }
  quicken(limit, *best);
  return with(*best);
}

double LimitChooser::least_seconds() {
  if (none_is_fastest()) return largest().report.step.seconds;
  double least = std::numeric_limits<double>::infinity();
  for (const Recompute word : words_) least = std::min(least, uniform(word).report.step.seconds);
  return least;
}

}  // namespace llmtrain
