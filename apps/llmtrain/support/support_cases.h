// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain::app {

// A value of a recipe key to be tested: a small recipe with it, and with the keys that it requires.
struct SupportCase {
  std::string key;                                         // "parallel.zero_stage"
  std::string value;                                       // as --set takes it
  std::vector<std::pair<std::string, std::string>> needs;  // other keys and their values
  bool default_is_fixed = false;                           // whatever other keys are

  std::vector<Override> overrides() const;
};

// Whether a recipe can be planned and run. `plan_reason` and `run_reason` are empty where it can, else the first
// reason.
struct Support {
  bool plans = false;
  bool runs = false;
  std::string plan_reason;
  std::string run_reason;

  bool operator==(const Support&) const = default;
};

// Two cases together whose answer does not follow from each of them alone.
struct SupportPair {
  const SupportCase* first = nullptr;
  const SupportCase* second = nullptr;
  std::vector<Override> overrides;  // of both
  Support support;
};

// All words of keys, and values of the other keys that a table lists with what they need, in the order of the key
// table. A key of the schema that is neither here nor left out is a mistake, which a test finds.
const std::vector<SupportCase>& support_cases();

// A key, or a section with all its keys, of which no value is tried.
struct LeftOut {
  std::string_view key;
  std::string_view reason;
};
std::vector<LeftOut> left_out();
bool is_left_out(std::string_view key);

// The small recipe that the cases change, as JSON text: one device of the profile "cpu".
const char* support_recipe();

// The support of the small recipe with these overrides. `profile` is the one that it names.
Support support_of(const std::vector<Override>& overrides, const ClusterProfile& profile);

// All pairs of which each can be planned but not both together, or whose combination runs differently than each alone
// implies, unless a pair of fewer settings is refused for the same reason. What a case sets goes before what the other
// needs; two values of one key, and cases that need different values of one key, are not a pair.
std::vector<SupportPair> surprising_pairs(const std::vector<Support>& alone, const ClusterProfile& profile);

}  // namespace llmtrain::app
