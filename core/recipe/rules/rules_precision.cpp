// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_high_precision(const Recipe& recipe, const Known&) {
  const auto& [first, last, parameters, fallback] = recipe.precision.high_precision;
  const auto layers = recipe.model.layers;
  if (first + last == 0 || first + last < layers) return {};
  return Refusal{fmt::format("{} first and {} last layers are all of the model's {}", first, last, layers),
                 "must leave a layer to FP8; without any, set precision.fp8_level to \"off\""};
}

// Without FP8 the key says nothing, as others of high_precision: plans compare a recipe with itself without FP8.
Verdict check_fallback(const Recipe& recipe, const Known&) {
  const PrecisionRecipe& precision = recipe.precision;
  if (precision.high_precision.fallback_steps == 0 || precision.fp8_level != Fp8Level::o0 || precision.delays_scales())
    return {};
  return Refusal{"at \"O0\" no operand overflows with its current scale, so that no layer would ever leave FP8",
                 "needs precision.fp8_scaling.method \"delayed\", or precision.fp8_level \"O1\" or above", "0"};
}

Verdict check_loss_scale(const Recipe& recipe, const Known&) {
  const double scale = recipe.precision.loss_scale.initial;
  const double power = std::exp2(std::floor(std::log2(scale)));
  if (scale == power) return {};
  return Refusal{number_words(scale) + " rounds gradients", "must be a power of two", number_words(power)};
}

Verdict check_stochastic_rounding(const Recipe& recipe, const Known&) {
  if (!recipe.precision.stochastic_rounding || stores_fp8(recipe.precision.fp8_level)) return {};
  return Refusal{"true, and an fp32 copy of the weights and moments in fp32 keep what an update changes",
                 "needs precision.fp8_level \"O1\", \"O2\" or \"O3\", whose weights have no such copy", "false"};
}

Verdict check_tf32(const Recipe& recipe, const Known&) {
  if (!recipe.precision.tf32 || recipe.cluster.device != DeviceKind::cpu) return {};
  return Refusal{"true, and a processor multiplies fp32 exactly", "needs cluster.device \"cuda\" or \"auto\"", "false"};
}

Verdict check_product_format(const Recipe& recipe, const Known&) {
  const PrecisionRecipe& precision = recipe.precision;
  if (!precision.multiplies_fp4()) return {};
  if (stores_fp8(precision.fp8_level))
    return Refusal{"numbers of 4 bits are of products alone", "must be \"fp8\" with precision.fp8_level above \"O0\"",
                   "\"fp8\""};
  if (!precision.delays_scales()) return {};
  return Refusal{"numbers of 4 bits have the scales of their own blocks",
                 "must be \"fp8\" with precision.fp8_scaling.method \"delayed\"", "\"fp8\""};
}

// What NF4 holds is multiplied in the compute type.
Verdict check_lora_base(const Recipe& recipe, const Known&) {
  const auto& lora = recipe.model.lora;
  if (!lora || lora->base != LoraBase::nf4 || !multiplies_fp8(recipe.precision.fp8_level)) return {};
  return Refusal{"\"nf4\" is multiplied in the compute type", "must be \"compute\" with precision.fp8_level",
                 "\"compute\""};
}

}  // namespace

std::vector<Rule> precision_rules() {
  return {
      {"/model/lora/base", {"/precision/fp8_level"}, check_lora_base},
      {"/precision/product_format", {"/precision/fp8_level", "/precision/fp8_scaling/method"}, check_product_format},
      {"/precision/high_precision",
       {"/precision/high_precision/first_layers", "/precision/high_precision/last_layers", "/model/layers"},
       check_high_precision},
      {"/precision/high_precision/fallback_steps",
       {"/precision/fp8_scaling/method", "/precision/fp8_level"},
       check_fallback},
      {"/precision/loss_scale/initial", {}, check_loss_scale},
      {"/precision/stochastic_rounding", {"/precision/fp8_level"}, check_stochastic_rounding},
      {"/precision/tf32", {"/cluster/device"}, check_tf32},
  };
}

}  // namespace llmtrain
