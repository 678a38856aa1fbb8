// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_statistics(const Recipe& recipe, const Known&) {
  if (!recipe.log.fp8_statistics || multiplies_fp8(recipe.precision.fp8_level)) return {};
  return Refusal{"true has nothing to describe", "needs a precision.fp8_level of \"O0\" to \"O3\"", "false"};
}

Verdict check_high_precision(const Recipe& recipe, const Known&) {
  const auto& [first, last, parameters] = recipe.precision.high_precision;
  const auto layers = recipe.model.layers;
  if (first + last == 0 || first + last < layers) return {};
  return Refusal{fmt::format("{} first and {} last layers are all of the model's {}", first, last, layers),
                 "must leave a layer to FP8; without any, set precision.fp8_level to \"off\""};
}

Verdict check_gradient_scaling(const Recipe& recipe, const Known&) {
  const PrecisionRecipe& precision = recipe.precision;
  if (precision.gradient_scaling == GradientScaling::automatic || stores_fp8(precision.fp8_level)) return {};
  return Refusal{"has no FP8 gradients to scale", "needs a precision.fp8_level of \"O1\" to \"O3\"", "\"auto\""};
}

}  // namespace

std::vector<Rule> precision_rules() {
  return {
      {"/precision/high_precision",
       {"/precision/high_precision/first_layers", "/precision/high_precision/last_layers", "/model/layers"},
       check_high_precision},
      {"/precision/gradient_scaling", {"/precision/fp8_level"}, check_gradient_scaling},
      {"/log/fp8_statistics", {"/precision/fp8_level"}, check_statistics},
  };
}

}  // namespace llmtrain
