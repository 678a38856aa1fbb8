// SPDX-License-Identifier: Apache-2.0
#include "core/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace llmtrain {

namespace {

// The fraction of the way from `first` to `last` at `step`, which is between them.
double progress(std::int64_t step, std::int64_t first, std::int64_t last) {
  return static_cast<double>(step - first) / static_cast<double>(last - first);
}

// Position between minimum (0) and peak (1), after the warm-up and before the end of the decay.
double height(const LearningRateRecipe& recipe, std::int64_t step) {
  const std::int64_t end = recipe.decay_steps;
  switch (recipe.schedule) {
    case LearningRateSchedule::constant:
      return 1;
    case LearningRateSchedule::linear:
      return 1 - progress(step, recipe.warmup_steps, end);
    case LearningRateSchedule::cosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * progress(step, recipe.warmup_steps, end)));
    case LearningRateSchedule::wsd: {
      // The last fifth, unless the warm-up ends within it.
      const std::int64_t start = std::max(recipe.warmup_steps, end - end / 5);
      return step < start ? 1 : 1 - progress(step, start, end);
    }
  }
  return 1;
}

}  // namespace

double learning_rate_at(const LearningRateRecipe& recipe, std::int64_t step) {
  if (step < recipe.warmup_steps)
    // step + 1: the first step already trains, and the last of the warm-up reaches the peak.
    return recipe.peak * static_cast<double>(step + 1) / static_cast<double>(recipe.warmup_steps);
  const bool decays = recipe.schedule != LearningRateSchedule::constant;
  // Before height(), which would divide by zero where the decay ends with the warm-up.
  if (decays && step >= recipe.decay_steps) return recipe.minimum;
  return std::lerp(recipe.minimum, recipe.peak, height(recipe, step));
}

}  // namespace llmtrain
