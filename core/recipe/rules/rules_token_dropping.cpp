// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_layers(const Recipe& recipe, const Known&) {
  const auto& dropping = recipe.training.token_dropping;
  if (!dropping || dropping->first_layers + dropping->last_layers < recipe.model.layers) return {};
  return Refusal{fmt::format("{} first and {} last layers are all of the model's {}", dropping->first_layers,
                             dropping->last_layers, recipe.model.layers),
                 "must leave a layer that drops tokens"};
}

Verdict check_first_kept(const Recipe& recipe, const Known&) {
  const auto& dropping = recipe.training.token_dropping;
  return dropping ? check_start(dropping->schedule, recipe.batch) : Verdict();
}

Verdict check_kept_lengths(const Recipe& recipe, const Known&) {
  const auto& dropping = recipe.training.token_dropping;
  return dropping ? check_multiple(dropping->schedule, recipe.batch) : Verdict();
}

// Each tensor rank routes an equal part of the tokens.
Verdict check_routed_parts(const Recipe& recipe, const Known&) {
  const auto& dropping = recipe.training.token_dropping;
  if (!dropping || !recipe.model.moe) return {};
  return must_be_multiple(dropping->schedule.multiple, recipe.parallel.tensor, "parallel.tensor, as experts split it");
}

}  // namespace

std::vector<Rule> token_dropping_rules() {
  const std::string_view dropping = "/training/token_dropping", start = "/training/token_dropping/start";
  const std::string_view multiple = "/training/token_dropping/multiple";
  const std::string_view length = "/batch/sequence_length", longest = "/model/max_sequence_length";
  return {
      {dropping, {"/model/layers"}, check_layers},
      {start, {multiple, length, longest}, check_first_kept},
      {multiple, {start, length, longest}, check_kept_lengths},
      {multiple, {start, "/model/moe/experts", "/parallel/tensor"}, check_routed_parts},
  };
}

}  // namespace llmtrain
