// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/explanation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>

namespace llmtrain {
namespace {

// Below what the table's digits show.
constexpr double negligible_change = 5e-4;

// How far two plans are apart: logarithms of ratios.
struct Effect {
  double speed = 0;
  double memory = 0;

  bool is_visible() const { return speed > 0 || memory > 0; }
  bool operator<(const Effect& other) const { return std::tie(speed, memory) < std::tie(other.speed, other.memory); }
};

double apart(double first, double second) {
  const double change = std::abs(std::log(second / first));
  return change < negligible_change ? 0 : change;
}

Effect effect_of(const PlanReport& before, const PlanReport& after) {
  return {apart(before.throughput.tokens_per_second_per_device, after.throughput.tokens_per_second_per_device),
          apart(fullest_rank(before).peak_bytes, fullest_rank(after).peak_bytes)};
}

using Keys = std::vector<KeyDifference>;

bool contains(const Keys& keys, const KeyDifference& key) {
  return std::ranges::find(keys, key.key, &KeyDifference::key) != keys.end();
}

// The way from a recipe to its source.
class Way {
 public:
  Way(Explanation& explanation, Keys keys, const PlanWith& plan_with)
      : explanation_(explanation), left_(std::move(keys)), plan_with_(plan_with) {}

  void go() {
    while (take_best(single_keys(false)) || take_best(single_keys(true)) || take_best(joined_keys()) ||
           take_best(needed_keys())) {
    }
    for (const KeyDifference& key : left_)
      (contains(refused_, key) ? explanation_.refused : explanation_.without_effect).push_back(key);
  }

 private:
  // Those that changed nothing when they were last tried, or the others.
  std::vector<Keys> single_keys(bool are_inert) const {
    std::vector<Keys> choices;
    for (const KeyDifference& key : left_)
      if (contains(inert_, key) == are_inert) choices.push_back({key});
    return choices;
  }

  // Degrees that divide the same devices can only change together.
  std::vector<Keys> joined_keys() const {
    std::vector<Keys> choices;
    for (std::size_t i = 0; i < refused_.size(); ++i)
      for (std::size_t j = i + 1; j < refused_.size(); ++j) choices.push_back({refused_[i], refused_[j]});
    if (refused_.size() > 2) choices.push_back(refused_);
    return choices;
  }

  // The refused keys with the fewest others that they need: degrees, for example, with the number of nodes, which alone
  // changes no speed of a device.
  std::vector<Keys> needed_keys() const {
    if (refused_.empty() || inert_.empty() || !plan_with(left_).report) return {};
    Keys needed = left_;
    for (const KeyDifference& key : inert_) {
      Keys fewer = needed;
      std::erase_if(fewer, [&](const KeyDifference& other) { return other.key == key.key; });
      if (plan_with(fewer).report) needed = std::move(fewer);
    }
    return {needed};
  }

  const PlanReport& here() const {
    return explanation_.changes.empty() ? explanation_.recipe : explanation_.changes.back().plan;
  }

  ChangedPlan plan_with(const Keys& choice) const {
    Keys keys = taken_;
    keys.insert(keys.end(), choice.begin(), choice.end());
    return plan_with_(keys);
  }

  // Sorts a key by what became of it alone.
  void remember(const KeyDifference& key, bool is_refused, bool is_inert) {
    const auto set = [&](Keys& keys, bool belongs) {
      std::erase_if(keys, [&](const KeyDifference& other) { return other.key == key.key; });
      if (belongs) keys.push_back(key);
    };
    set(refused_, is_refused);
    set(inert_, is_inert);
  }

  // Whether one of the choices leads on: then the keys of the largest effect are taken, and joined ones also without.
  bool take_best(const std::vector<Keys>& choices) {
    std::optional<ExplainedChange> best;
    Effect largest;
    for (const Keys& choice : choices) {
      ChangedPlan changed = plan_with(choice);
      const Effect effect = changed.report ? effect_of(here(), *changed.report) : Effect{};
      const bool is_single = choice.size() == 1;
      if (is_single) remember(choice.front(), !changed.report, changed.report && !effect.is_visible());
      if (!changed.report || !(largest < effect || (!best && !is_single))) continue;
      largest = effect;
      best = ExplainedChange{choice, *std::move(changed.report)};
    }
    if (!best) return false;
    take(*std::move(best), largest);
    return true;
  }

  void take(ExplainedChange change, const Effect& effect) {
    for (const KeyDifference& key : change.keys) {
      remember(key, false, false);
      std::erase_if(left_, [&](const KeyDifference& other) { return other.key == key.key; });
      taken_.push_back(key);
      if (!effect.is_visible()) explanation_.without_effect.push_back(key);
    }
    if (effect.is_visible()) explanation_.changes.push_back(std::move(change));
  }

  Explanation& explanation_;
  Keys left_, taken_;
  Keys refused_, inert_;  // of those left, each alone with those taken
  const PlanWith& plan_with_;
};

}  // namespace

std::optional<double> Explanation::expected() const {
  if (!measured) return std::nullopt;
  return recipe.throughput.tokens_per_second_per_device * *measured /
         source_plan.throughput.tokens_per_second_per_device;
}

void explain_changes(Explanation& explanation, std::vector<KeyDifference> keys, const PlanWith& plan_with) {
  Way(explanation, std::move(keys), plan_with).go();
}

}  // namespace llmtrain
