// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

bool packs(const Recipe& recipe) { return recipe.data.fine_tuning && recipe.data.fine_tuning->packing; }

// Masks are a function of the element's place among all pairs of a sequence's tokens, which packing does not compute.
Verdict check_packed_dropout(const Recipe& recipe, const Known&) {
  if (!packs(recipe) || recipe.model.dropout == 0) return {};
  return Refusal{number_words(recipe.model.dropout) + " cannot be used with packing",
                 "must be 0 where data.fine_tuning.packing is true", "0"};
}

Verdict check_packed_context(const Recipe& recipe, const Known&) {
  if (!packs(recipe) || recipe.parallel.context == 1) return {};
  return Refusal{std::to_string(recipe.parallel.context) + " ranks cannot share packed sequences",
                 "must be 1 where data.fine_tuning.packing is true", "1"};
}

}  // namespace

std::vector<Rule> fine_tuning_rules() {
  return {
      {"/model/dropout", {"/data/fine_tuning"}, check_packed_dropout},
      {"/parallel/context", {"/data/fine_tuning"}, check_packed_context},
  };
}

}  // namespace llmtrain
