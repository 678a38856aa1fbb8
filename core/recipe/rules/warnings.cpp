// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/recipe/easiest_share.h"
#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/rules/rules.h"
#include "core/recipe/step_shapes.h"

namespace llmtrain {
namespace {

// Schedules of what steps train on that the run does not come to the end of.
void warn_of_unfinished(const Recipe& recipe, std::vector<std::string>& warnings) {
  const std::int64_t steps = recipe.training.steps;
  const StepShapes shapes(recipe);
  const StepShape& last = shapes.at(steps - 1);
  const auto warn = [&](const char* key, std::int64_t tokens) {
    warnings.push_back(std::string(key) + ".steps: the run (training.steps " + std::to_string(steps) +
                       ") ends before it, at " + std::to_string(tokens) + " of batch.sequence_length " +
                       std::to_string(recipe.batch.sequence_length) + " tokens");
  };
  if (last.sequence_length < recipe.batch.sequence_length)
    warn("data.curriculum.sequence_length", last.sequence_length);
  if (last.kept_tokens > 0) warn("training.token_dropping", last.kept_tokens);
  const std::int64_t percent = easiest_percent(recipe.data.curriculum, steps - 1);
  if (percent < all_percent)
    warnings.push_back("data.curriculum.vocabulary_rarity.steps: the run (training.steps " + std::to_string(steps) +
                       ") ends before it, at " + std::to_string(percent) + " % of the samples");
  const LearningRateRecipe& rate = recipe.training.learning_rate;
  const double end = schedule_position(rate, shapes, steps);
  // A step more or less is rounding.
  if (rate.schedule != LearningRateSchedule::constant && rate.decay_steps <= steps &&
      end < static_cast<double>(rate.decay_steps) - 1)
    warnings.push_back(
        "training.learning_rate.decay_steps: the tokens of the run are those of " + std::to_string(std::llround(end)) +
        " whole steps, so that the learning rate does not reach its minimum at " + std::to_string(rate.decay_steps));
}

// Keys of experts that another one makes meaningless.
void warn_of_unused_routing(const MixtureOfExpertsRecipe& moe, std::vector<std::string>& warnings) {
  if (moe.priority == RouterPriority::score && moe.capacity_factor == 0)
    warnings.emplace_back(
        "model.moe.priority: \"score\" has no places to give away: with model.moe.capacity_factor 0 no token is "
        "dropped");
  const double unchanged = MixtureOfExpertsRecipe().balance_coefficient;
  if (moe.balance_loss == BalanceLoss::none && moe.balance_coefficient != unchanged && moe.balance_coefficient > 0)
    warnings.push_back("model.moe.balance_coefficient: " + number_words(moe.balance_coefficient) +
                       " has no loss to multiply: model.moe.balance_loss is \"none\"");
}

}  // namespace

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
  if (recipe.data.curriculum != CurriculumRecipe() || recipe.training.token_dropping)
    warn_of_unfinished(recipe, warnings);
  if (recipe.model.moe) warn_of_unused_routing(*recipe.model.moe, warnings);
  // Warnings and no rules, because planners and people compare FP8 levels by that key alone.
  if (recipe.log.fp8_statistics && !multiplies_fp8(recipe.precision.fp8_level))
    warnings.emplace_back("log.fp8_statistics: there is nothing to describe: precision.fp8_level is \"off\"");
  if (recipe.precision.fp8_scaling != Fp8ScalingRecipe{} && !multiplies_fp8(recipe.precision.fp8_level))
    warnings.emplace_back("precision.fp8_scaling: there is nothing to scale: precision.fp8_level is \"off\"");
  if (recipe.precision.gradient_scaling != GradientScaling::automatic && !stores_fp8(recipe.precision.fp8_level))
    warnings.emplace_back(
        "precision.gradient_scaling: no gradients are in FP8: they are from precision.fp8_level \"O1\" on");
  return warnings;
}

}  // namespace llmtrain
