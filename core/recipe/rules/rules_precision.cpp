// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_high_precision(const Recipe& recipe, const Known&) {
  const auto& [first, last, parameters] = recipe.precision.high_precision;
  const auto layers = recipe.model.layers;
  if (first + last == 0 || first + last < layers) return {};
  return Refusal{fmt::format("{} first and {} last layers are all of the model's {}", first, last, layers),
                 "must leave a layer to FP8; without any, set precision.fp8_level to \"off\""};
}

}  // namespace

std::vector<Rule> precision_rules() {
  return {
      {"/precision/high_precision",
       {"/precision/high_precision/first_layers", "/precision/high_precision/last_layers", "/model/layers"},
       check_high_precision},
  };
}

}  // namespace llmtrain
