// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_kv_heads(const Recipe& recipe, const Known&) {
  // Every key and value head serves equally many query heads.
  return must_divide(recipe.model.kv_heads, recipe.model.heads, "model.heads");
}

Verdict check_hidden_size(const Recipe& recipe, const Known& known) {
  // hidden_size / heads is only head_dim's default: a recipe that gives head_dim need not be divisible.
  if (known.document == nullptr || known.document->holds("/model/head_dim")) return {};
  return must_be_multiple(recipe.model.hidden_size, recipe.model.heads, "model.heads, or give model.head_dim");
}

Verdict check_head_dim(const Recipe& recipe, const Known&) {
  // Rotary positions rotate pairs of elements.
  if (recipe.model.position != Position::rope) return {};
  return must_be_multiple(recipe.model.head_dim, 2, "2 where model.position is rope");
}

Verdict check_top_k(const Recipe& recipe, const Known&) {
  if (!recipe.model.moe) return {};
  return must_be_at_most(recipe.model.moe->top_k, recipe.model.moe->experts, "is too large", "model.moe.experts");
}

Verdict check_expert_layers(const Recipe& recipe, const Known&) {
  if (!recipe.model.moe) return {};
  return must_be_at_most(recipe.model.moe->every, recipe.model.layers, "leaves no layer with experts", "model.layers");
}

Verdict check_sequence_length(const Recipe& recipe, const Known&) {
  return must_be_at_most(recipe.batch.sequence_length, recipe.model.max_sequence_length, "is too long",
                         "model.max_sequence_length");
}

// Token files need no tokenizer, so a model with fewer ids than bytes may read them.
Verdict check_vocabulary(const Recipe& recipe, const Known&) {
  const auto& data = recipe.data;
  const auto is_text = [](const DataSource& source) { return !source.path.ends_with(".bin"); };
  const bool reads_text = std::ranges::any_of(data.train, is_text) || std::ranges::any_of(data.validation, is_text);
  if (recipe.model.vocab_size >= 256 || data.tokenizer.kind != TokenizerKind::bytes || !reads_text) return {};
  return Refusal{std::to_string(recipe.model.vocab_size) + " is too small",
                 "data.tokenizer \"bytes\" needs at least 256", "256"};
}

}  // namespace

std::vector<Rule> model_rules() {
  return {
      {"/model/kv_heads", {"/model/heads"}, check_kv_heads},
      {"/model/hidden_size", {"/model/heads", "/model/head_dim"}, check_hidden_size},
      {"/model/head_dim",
       {"/model/heads", "/model/hidden_size", "/model/position", "/model/architecture"},
       check_head_dim},
      {"/model/moe/top_k", {"/model/moe/experts"}, check_top_k},
      {"/model/moe/every", {"/model/layers"}, check_expert_layers},
      {"/batch/sequence_length", {"/model/max_sequence_length"}, check_sequence_length},
      {"/model/vocab_size", {"/data/tokenizer", "/data/train", "/data/validation"}, check_vocabulary},
  };
}

}  // namespace llmtrain
