// SPDX-License-Identifier: Apache-2.0
#include "core/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace llmtrain {
namespace {

// What inverse_sqrt takes for the steps of a warm-up where there is none, as transformers does.
constexpr double default_timescale = 10'000;

// The fraction of the way from `first` to `last` at `step`, which is between them.
double progress(double step, double first, double last) { return (step - first) / (last - first); }

// From 1 to 0 along half a cosine.
double half_cosine(double fraction) { return 0.5 * (1 + std::cos(std::numbers::pi * fraction)); }

double decayed(DecayShape shape, double fraction) {
  switch (shape) {
    case DecayShape::linear:
      return 1 - fraction;
    case DecayShape::one_minus_sqrt:
      return 1 - std::sqrt(fraction);
    case DecayShape::cosine:
      return half_cosine(fraction);
  }
  return 1;
}

// Position between minimum (0) and peak (1), after the warm-up and before the end of the decay.
double height(const LearningRateRecipe& recipe, double step) {
  const auto end = static_cast<double>(recipe.decay_steps), warm = static_cast<double>(recipe.warmup_steps);
  switch (recipe.schedule) {
    case LearningRateSchedule::constant:
      return 1;
    case LearningRateSchedule::linear:
      return 1 - progress(step, warm, end);
    case LearningRateSchedule::cosine:
      return half_cosine(progress(step, warm, end));
    case LearningRateSchedule::cosine_restarts: {
      const double cycle = static_cast<double>(recipe.cycles) * progress(step, warm, end);
      return half_cosine(cycle - std::floor(cycle));
    }
    case LearningRateSchedule::wsd: {
      // A warm-up that ends within the decay shortens it.
      const std::int64_t length = recipe.decay_length.value_or(recipe.decay_steps / 5);
      const auto start = static_cast<double>(std::max(recipe.warmup_steps, recipe.decay_steps - length));
      return step < start ? 1 : decayed(recipe.decay_shape, progress(step, start, end));
    }
    case LearningRateSchedule::inverse_sqrt: {
      const double timescale = recipe.warmup_steps > 0 ? warm : default_timescale;
      return std::sqrt(timescale / (step - warm + timescale));
    }
  }
  return 1;
}

}  // namespace

double learning_rate_at(const LearningRateRecipe& recipe, double step) {
  if (step < static_cast<double>(recipe.warmup_steps))
    // step + 1: the first step already trains, and the last of the warm-up reaches the peak.
    return std::min(recipe.peak, recipe.peak * (step + 1) / static_cast<double>(recipe.warmup_steps));
  // Before height(), which would divide by zero where the decay ends with the warm-up.
  if (recipe.ends() && step >= static_cast<double>(recipe.decay_steps)) return recipe.minimum;
  return std::lerp(recipe.minimum, recipe.peak, height(recipe, step));
}

}  // namespace llmtrain
