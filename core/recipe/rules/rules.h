// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/problems.h"
#include "core/recipe/recipe.h"
#include "core/recipe/rules/world.h"

namespace llmtrain {

// What is known beside the recipe.
struct Known {
  const World* world = nullptr;        // null: nothing of it yet
  const Document* document = nullptr;  // what the user wrote; null: every key counts as given
};

// How a recipe breaks a rule; `hint` is the nearest right value, if any.
struct Refusal {
  std::string what;
  std::string rule;
  std::string hint{};
};

using Verdict = std::optional<Refusal>;

// What may go with what. The keys are JSON pointers.
struct Rule {
  std::string_view refuses;             // the key that is told
  std::vector<std::string_view> reads;  // the others that it looks at, and those that decide their defaults
  Verdict (*check)(const Recipe& recipe, const Known& known);
};

// Every rule between keys, once; its parts, one a file.
const std::vector<Rule>& all_rules();
std::vector<Rule> model_rules();
std::vector<Rule> training_rules();
std::vector<Rule> world_rules();
std::vector<Rule> layout_rules();
std::vector<Rule> pipeline_rules();
std::vector<Rule> size_rules();

// Tells which rules are broken. A rule is evaluated where all that it reads and refuses is right in itself, and was not
// refused by a rule before it.
void check_rules(const Recipe& recipe, const Known& known, Problems& problems,
                 const std::vector<Rule>& rules = all_rules());

// The same for a recipe that is read already, in the world that it gets. Throws Error(bad_recipe) with a line for each
// broken rule: `<JSON pointer>: <what is wrong>; <rule>; did you mean …?`. Takes a fraction of a microsecond where
// all hold.
void require_rules(const Recipe& recipe, const World& world);

// The data-parallel degree: the recipe's, else what the world leaves, else none.
std::optional<std::int64_t> data_ranks(const Recipe& recipe, const Known& known);

// Verdicts on a number, with the nearest right one as hint. `rule` follows "must be a multiple of " and "must divide ".
Verdict must_be_multiple(std::int64_t value, std::int64_t divisor, std::string_view rule);
Verdict must_divide(std::int64_t value, std::int64_t whole, std::string_view rule);
// `what` follows the value; `limit` is the value of `key`.
Verdict must_be_at_most(std::int64_t value, std::int64_t limit, std::string_view what, std::string_view key);

}  // namespace llmtrain
