// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/support/support_cases.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "core/base/error.h"
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

Settings settings_of(const SupportCase& one) {
  Settings settings(one.needs.begin(), one.needs.end());
  settings[one.key] = one.value;
  return settings;
}

// The union of both settings, or none where they contradict each other.
std::vector<Override> merged(const SupportCase& first, const SupportCase& second) {
  Settings settings = settings_of(first);
  for (const auto& [key, value] : settings_of(second))
    if (!settings.emplace(key, value).second && settings[key] != value) return {};
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

bool is_surprising(const Support& first, const Support& second, const Support& both) {
  if (first.plans && second.plans && !both.plans) return true;
  return both.runs != (first.runs && second.runs);
}

}  // namespace

std::vector<Override> SupportCase::overrides() const {
  std::vector<Override> overrides;
  for (const auto& [name, text] : settings_of(*this)) overrides.push_back(name + "=" + text);
  return overrides;
}

const char* support_recipe() { return small_recipe; }

Support support_of(const std::vector<Override>& overrides, const ClusterProfile& profile) {
  Support support;
  try {
    const Recipe recipe = parse_recipe(small_recipe, "support", ".", overrides);
    make_plan(recipe, profile);
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
  const auto& cases = support_cases();
  std::vector<SupportPair> pairs;
  for (std::size_t first = 0; first < cases.size(); ++first) {
    for (std::size_t second = first + 1; second < cases.size(); ++second) {
      if (cases[first].key == cases[second].key) continue;
      const auto overrides = merged(cases[first], cases[second]);
      if (overrides.empty()) continue;
      const Support both = support_of(overrides, profile);
      if (is_surprising(alone[first], alone[second], both)) pairs.push_back({&cases[first], &cases[second], both});
    }
  }
  return pairs;
}

}  // namespace llmtrain::app
