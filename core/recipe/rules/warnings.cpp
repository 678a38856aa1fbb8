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
  // Warnings and no rules, because planners and people compare FP8 levels by that key alone.
  if (recipe.log.fp8_statistics && !multiplies_fp8(recipe.precision.fp8_level))
    warnings.emplace_back("log.fp8_statistics: there is nothing to describe: precision.fp8_level is \"off\"");
  if (recipe.precision.gradient_scaling != GradientScaling::automatic && !stores_fp8(recipe.precision.fp8_level))
    warnings.emplace_back(
        "precision.gradient_scaling: no gradients are in FP8: they are from precision.fp8_level \"O1\" on");
  return warnings;
}

}  // namespace llmtrain
