// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_kept_checkpoints(const Recipe& recipe, const Known&) {
  const CheckpointRecipe& checkpoint = recipe.checkpoint;
  if (checkpoint.keep_every == 0) return {};
  if (checkpoint.every == 0)
    return Refusal{fmt::format("{} keeps none", checkpoint.keep_every),
                   "needs checkpoint.every, which says after which steps there are checkpoints", "0"};
  return must_be_multiple(checkpoint.keep_every, checkpoint.every, "checkpoint.every");
}

}  // namespace

std::vector<Rule> running_rules() {
  return {{"/checkpoint/keep_every", {"/checkpoint/every"}, check_kept_checkpoints}};
}

}  // namespace llmtrain
