// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/rule_words.h"
#include "core/recipe/rules.h"

namespace llmtrain {
namespace {

void check_learning_rate(const RuleCheck& check) {
  const auto& training = check.recipe.training;
  const auto& rate = training.learning_rate;
  const std::string section = "/training/learning_rate/";
  if (check.are_clean({section + "peak", section + "minimum"}) && rate.minimum > rate.peak) {
    check.refuse(section + "minimum", number_words(rate.minimum) + " is above the peak",
                 "must be at most training.learning_rate.peak (" + number_words(rate.peak) + ")",
                 number_words(rate.peak));
  }
  if (!check.are_clean({"/training/steps", section + "warmup_steps", section + "decay_steps"})) return;
  if (rate.warmup_steps > training.steps) {
    check.refuse(section + "warmup_steps", std::to_string(rate.warmup_steps) + " is longer than the run",
                 "must be at most training.steps (" + std::to_string(training.steps) + ")",
                 std::to_string(training.steps));
  } else if (rate.decay_steps < rate.warmup_steps) {
    check.refuse(section + "decay_steps", std::to_string(rate.decay_steps) + " lies within the warm-up",
                 "must be at least training.learning_rate.warmup_steps (" + std::to_string(rate.warmup_steps) + ")",
                 std::to_string(rate.warmup_steps));
  }
}

void check_evaluation(const RuleCheck& check) {
  const auto& recipe = check.recipe;
  if (recipe.training.evaluate_every == 0 || recipe.data.train.empty() || !recipe.data.validation.empty()) return;
  if (!check.are_clean({"/training/evaluate_every", "/data/validation", "/data/train"})) return;
  check.refuse("/training/evaluate_every", std::to_string(recipe.training.evaluate_every) + " has nothing to evaluate",
               "needs data.validation; 0 never evaluates", "0");
}

void check_attention(const RuleCheck& check) {
  if (!check.are_clean({"/kernels/attention", "/model/dropout"})) return;
  const auto& recipe = check.recipe;
  if (recipe.kernels.attention != AttentionKernel::flash || recipe.model.dropout == 0) return;
  check.refuse("/kernels/attention", "\"flash\" has no dropout",
               "with model.dropout " + number_words(recipe.model.dropout) + " attention takes the math path",
               "\"auto\"");
}

void check_fp8(const RuleCheck& check) {
  if (!check.are_clean({"/precision/fp8_level", "/precision/compute"})) return;
  const auto& precision = check.recipe.precision;
  if (precision.fp8_level == Fp8Level::off || precision.compute != DataType::fp32) return;
  check.refuse("/precision/compute", "\"fp32\" does not go with FP8",
               "precision.fp8_level other than off needs \"bf16\" or \"fp16\"", "\"bf16\"");
}

}  // namespace

void check_training_rules(const RuleCheck& check) {
  check_learning_rate(check);
  check_evaluation(check);
  check_attention(check);
  check_fp8(check);
}

}  // namespace llmtrain
