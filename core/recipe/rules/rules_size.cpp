// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/recipe/keys/rule_words.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

// Bounds on products of keys, far above any model in use: below them all sizes in bytes fit 64 bits.
constexpr double most_parameters = 1e15;
constexpr double most_tokens = 1e18;
constexpr double most_activations = 1e16;

// An estimate from above in floating point, where products cannot overflow: three matrices per feed-forward block, no
// tied weights.
double parameters(const ModelRecipe& model) {
  const auto as = [](std::int64_t value) { return static_cast<double>(value); };
  const double attention = 2 * (as(model.heads) + as(model.kv_heads)) * as(model.head_dim) * as(model.hidden_size);
  double layer = attention + 3 * as(model.hidden_size) * as(model.ffn_hidden_size);
  if (model.moe) {
    layer += 3 * as(model.hidden_size) * as(model.moe->ffn_hidden_size) *
             (as(model.moe->experts) + as(model.moe->shared_experts));
  }
  return as(model.layers) * layer + as(model.hidden_size) * (2 * as(model.vocab_size) + as(model.max_sequence_length));
}

// Elements of the widest tensor of one micro-batch, in every layer.
double activations(const Recipe& recipe) {
  const auto& model = recipe.model;
  const auto length = recipe.batch.sequence_length;
  const auto widest = std::max(
      {model.vocab_size, model.ffn_hidden_size, model.hidden_size, model.heads * model.head_dim, model.heads * length});
  // Both factors are bounded by their keys' ranges, so this product fits 64 bits; the others are in floating point.
  return static_cast<double>(recipe.batch.micro * length) * static_cast<double>(widest) *
         static_cast<double>(model.layers + 2);
}

Verdict check_parameters(const Recipe& recipe, const Known&) {
  const auto count = parameters(recipe.model);
  if (count <= most_parameters) return {};
  return Refusal{"has about " + number_words(count) + " parameters", "must have at most 1e15"};
}

Verdict check_activations(const Recipe& recipe, const Known&) {
  if (activations(recipe) <= most_activations) return {};
  return Refusal{std::to_string(recipe.batch.micro) + " makes tensors too large to count",
                 "micro × sequence_length × the widest of vocab_size, ffn_hidden_size and heads × sequence_length × "
                 "layers must be at most 1e16"};
}

Verdict check_tokens(const Recipe& recipe, const Known&) {
  const auto& batch = recipe.batch;
  const auto steps = recipe.training.steps;
  const auto tokens =
      static_cast<double>(steps) * static_cast<double>(batch.global) * static_cast<double>(batch.sequence_length);
  if (tokens <= most_tokens) return {};
  return Refusal{std::to_string(steps) + " steps read too many tokens",
                 "steps × batch.global × batch.sequence_length must be at most 1e18"};
}

}  // namespace

std::vector<Rule> size_rules() {
  return {
      {"/model", {}, check_parameters},
      {"/batch/micro", {"/model", "/batch/sequence_length"}, check_activations},
      {"/training/steps", {"/batch/global", "/batch/sequence_length", "/model/max_sequence_length"}, check_tokens},
  };
}

}  // namespace llmtrain
