// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {

std::vector<std::string> recipe_warnings(const Recipe& recipe) {
  std::vector<std::string> warnings;
  const auto& rate = recipe.training.learning_rate;
  const std::int64_t steps = recipe.training.steps;
  if (rate.warmup_steps > steps) {
    const double reached = rate.peak * static_cast<double>(steps) / static_cast<double>(rate.warmup_steps);
    warnings.push_back("training.learning_rate.warmup_steps: " + std::to_string(rate.warmup_steps) +
                       " is longer than the run (training.steps " + std::to_string(steps) +
                       "): the learning rate ends at " + number_words(reached) + ", below its peak of " +
                       number_words(rate.peak));
  }
  return warnings;
}

}  // namespace llmtrain
