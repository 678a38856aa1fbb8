// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/rule_words.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_minimum(const Recipe& recipe, const Known&) {
  const auto& rate = recipe.training.learning_rate;
  if (rate.minimum <= rate.peak) return {};
  const auto peak = number_words(rate.peak);
  return Refusal{number_words(rate.minimum) + " is above the peak",
                 "must be at most training.learning_rate.peak (" + peak + ")", peak};
}

Verdict check_warmup(const Recipe& recipe, const Known&) {
  return must_be_at_most(recipe.training.learning_rate.warmup_steps, recipe.training.steps, "is longer than the run",
                         "training.steps");
}

Verdict check_decay(const Recipe& recipe, const Known&) {
  const auto& rate = recipe.training.learning_rate;
  if (rate.decay_steps >= rate.warmup_steps) return {};
  const auto warmup = std::to_string(rate.warmup_steps);
  return Refusal{std::to_string(rate.decay_steps) + " is within the warm-up",
                 "must be at least training.learning_rate.warmup_steps (" + warmup + ")", warmup};
}

Verdict check_evaluation(const Recipe& recipe, const Known&) {
  const auto every = recipe.training.evaluate_every;
  // Without training data the recipe is only planned.
  if (every == 0 || recipe.data.train.empty() || !recipe.data.validation.empty()) return {};
  return Refusal{std::to_string(every) + " has nothing to evaluate", "needs data.validation; 0 disables evaluation",
                 "0"};
}

Verdict check_attention(const Recipe& recipe, const Known&) {
  if (recipe.kernels.attention != AttentionKernel::flash || recipe.model.dropout == 0) return {};
  return Refusal{"\"flash\" has no dropout",
                 "with model.dropout " + number_words(recipe.model.dropout) + " attention uses the math path",
                 "\"auto\""};
}

Verdict check_fp8(const Recipe& recipe, const Known&) {
  if (recipe.precision.fp8_level == Fp8Level::off || recipe.precision.compute != DataType::fp32) return {};
  return Refusal{"\"fp32\" cannot be combined with FP8",
                 "precision.fp8_level other than off needs \"bf16\" or \"fp16\"", "\"bf16\""};
}

}  // namespace

std::vector<Rule> training_rules() {
  const std::string_view warmup = "/training/learning_rate/warmup_steps";
  return {
      {"/training/learning_rate/minimum", {"/training/learning_rate/peak"}, check_minimum},
      {warmup, {"/training/steps"}, check_warmup},
      {"/training/learning_rate/decay_steps", {"/training/steps", warmup}, check_decay},
      {"/training/evaluate_every", {"/data/train", "/data/validation"}, check_evaluation},
      {"/kernels/attention", {"/model/dropout"}, check_attention},
      {"/precision/compute", {"/precision/fp8_level"}, check_fp8},
  };
}

}  // namespace llmtrain
