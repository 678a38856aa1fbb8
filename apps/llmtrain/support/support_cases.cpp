// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/support/support_cases.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/machine/processor.h"
#include "parallel/layout/executable.h"
#include "parallel/plan/planner/planner.h"

namespace llmtrain::app {
namespace {

// Small, since every pair of cases is planned, and divisible by the degrees in the table.
constexpr const char* small_recipe = R"({
  "model": {"architecture": "gpt2", "layers": 4, "hidden_size": 64, "heads": 4, "vocab_size": 256,
            "max_sequence_length": 64},
  "batch": {"global": 8, "micro": 1},
  "training": {"steps": 1},
  "parallel": {"data": 1},
  "cluster": {"profile": "cpu"}
})";

using Settings = std::map<std::string, std::string>;

Settings needs_of(const SupportCase& one) { return {one.needs.begin(), one.needs.end()}; }

Settings settings_of(const SupportCase& one) {
  Settings settings = needs_of(one);
  settings[one.key] = one.value;
  return settings;
}

// The union of both settings, or none where the two need different values of one key.
Settings merged(const SupportCase& first, const SupportCase& second) {
  Settings settings = needs_of(first);
  for (const auto& [key, value] : second.needs)
    if (!settings.emplace(key, value).second && settings[key] != value) return {};
  settings[first.key] = first.value;
  settings[second.key] = second.value;
  return settings;
}

std::vector<Override> overrides_of(const Settings& settings) {
  std::vector<Override> overrides;
  for (const auto& [key, value] : settings) overrides.push_back(key + "=" + value);
  return overrides;
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

// Removes the file's part of "--set: /key: reason" or "support: /key: reason".
std::string reason_of(const Error& error) {
  const std::string line = first_line(error.what());
  const auto pointer = line.find('/');
  return pointer == std::string::npos ? line : line.substr(pointer);
}

Recipe recipe_of(const Settings& settings) {
  return parse_recipe(small_recipe, "support", ".", overrides_of(settings));
}

bool is_needed(const std::string& key) {
  return std::ranges::any_of(support_cases(), [&](const SupportCase& one) { return needs_of(one).contains(key); });
}

// Which cases add a default to the small recipe or to an earlier case, so that their pairs are those of that one: a
// default that other cases need to be something else is not such a one.
std::vector<bool> repeated_cases(const std::vector<SupportCase>& cases) {
  std::vector<bool> repeated;
  std::vector<Recipe> recipes;
  const Recipe small = recipe_of({});
  for (const SupportCase& one : cases) {
    recipes.push_back(recipe_of(settings_of(one)));
    bool repeats = one.needs.empty() && recipes.back() == small;
    for (std::size_t index = 0; index + 1 < recipes.size() && !repeats; ++index)
      repeats = recipes[index] == recipes.back() &&
                (settings_of(cases[index]) == needs_of(one) ||
                 (cases[index].default_is_fixed && needs_of(cases[index]) == needs_of(one)));
    repeated.push_back(repeats && one.default_is_fixed && !is_needed(one.key));
  }
  return repeated;
}

bool has_fewer_settings(const SupportPair& one, const SupportPair& other) {
  return one.overrides.size() < other.overrides.size() && std::ranges::all_of(one.overrides, [&](const auto& override) {
           return std::ranges::find(other.overrides, override) != other.overrides.end();
         });
}

// Without the pairs that add nothing to another one with the same answer.
std::vector<SupportPair> smallest(const std::vector<SupportPair>& found) {
  std::vector<SupportPair> pairs;
  std::ranges::copy_if(found, std::back_inserter(pairs), [&](const SupportPair& one) {
    return std::ranges::none_of(found, [&](const SupportPair& other) {
      return other.support == one.support && has_fewer_settings(other, one);
    });
  });
  return pairs;
}

bool is_surprising(const Support& first, const Support& second, const Support& both) {
  if (first.plans && second.plans && !both.plans) return true;
  return both.runs != (first.runs && second.runs);
}

// Plans thousands of small recipes, a share of them on each core.
class PairSearch {
 public:
  PairSearch(const std::vector<Support>& alone, const ClusterProfile& profile) : alone_(alone), profile_(profile) {
    const std::vector<bool> repeated = repeated_cases(support_cases());
    for (std::size_t index = 0; index < repeated.size(); ++index)
      if (!repeated[index]) telling_.push_back(index);
  }

  std::vector<SupportPair> of_part(std::size_t part, std::size_t parts) const {
    std::vector<SupportPair> found;
    for (std::size_t first = part; first < telling_.size(); first += parts)
      for (std::size_t second = first + 1; second < telling_.size(); ++second)
        add_if_surprising(telling_[first], telling_[second], found);
    return found;
  }

 private:
  void add_if_surprising(std::size_t first, std::size_t second, std::vector<SupportPair>& found) const {
    const SupportCase &one = support_cases()[first], &other = support_cases()[second];
    if (one.key == other.key) return;
    std::vector<Override> overrides = overrides_of(merged(one, other));
    if (overrides.empty()) return;
    Support both = support_of(overrides, profile_);
    if (is_surprising(alone_[first], alone_[second], both))
      found.push_back({&one, &other, std::move(overrides), std::move(both)});
  }

  const std::vector<Support>& alone_;
  const ClusterProfile& profile_;
  std::vector<std::size_t> telling_;
};

}  // namespace

std::vector<Override> SupportCase::overrides() const { return overrides_of(settings_of(*this)); }

const char* support_recipe() { return small_recipe; }

Support support_of(const std::vector<Override>& overrides, const ClusterProfile& profile) {
  Support support;
  try {
    const Recipe recipe = parse_recipe(small_recipe, "support", ".", overrides);
    // What can be laid out has a price.
    lay_out(recipe, profile);
    support.plans = true;
    const auto refusals = not_executable(recipe);
    support.runs = refusals.empty();
    if (!support.runs) support.run_reason = refusals.front();
  } catch (const Error& error) {
    support.plan_reason = reason_of(error);
    support.run_reason = support.plan_reason;
  }
  return support;
}

std::vector<SupportPair> surprising_pairs(const std::vector<Support>& alone, const ClusterProfile& profile) {
  const PairSearch search(alone, profile);
  std::vector<std::future<std::vector<SupportPair>>> parts;
  const auto threads = static_cast<std::size_t>(usable_cores());
  for (std::size_t part = 0; part < threads; ++part)
    parts.push_back(std::async(std::launch::async, [&search, part, threads] { return search.of_part(part, threads); }));
  std::vector<SupportPair> found;
  for (auto& part : parts) std::ranges::move(part.get(), std::back_inserter(found));
  // In the order of the cases.
  std::ranges::sort(found, {}, [](const SupportPair& pair) { return std::pair(pair.first, pair.second); });
  return smallest(found);
}

}  // namespace llmtrain::app
