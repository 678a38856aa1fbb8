// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_masking(const Recipe& recipe, const Known&) {
  const DataRecipe& data = recipe.data;
  if (!data.masking) {
    if (!is_encoder(recipe.model.architecture) || data.train.empty() || data.labels || data.spans ||
        recipe.model.classifier)
      return {};
    return Refusal{"null, with which an encoder would see the token that it is to tell",
                   "must be a section, such as {\"probability\": 0.15}, with an encoder", "{}"};
  }
  if (!is_encoder(recipe.model.architecture))
    return Refusal{
        "hides tokens that are to be told from both sides, and this model's tokens attend to those before "
        "them alone",
        "needs an encoder as model.architecture", "null"};
  if (data.fine_tuning) return Refusal{"is for texts", "must be null with data.fine_tuning", "null"};
  // In a part of a sample another number of rows would count.
  if (data.curriculum.sequence_length)
    return Refusal{"counts the hidden tokens of whole sequences",
                   "must be null with data.curriculum.sequence_length, which cuts them", "null"};
  if (data.curriculum.vocabulary_rarity)
    return Refusal{"hides the tokens by which samples would be ordered",
                   "must be null with data.curriculum.vocabulary_rarity", "null"};
  return {};
}

Verdict check_shares(const Recipe& recipe, const Known&) {
  const auto& masking = recipe.data.masking;
  // One that is written as 1 - replaced may be larger by rounding.
  constexpr double rounding = 1e-9;
  if (!masking || masking->replaced + masking->random <= 1 + rounding) return {};
  return Refusal{number_words(masking->random) + " and replaced (" + number_words(masking->replaced) +
                     ") are more than all hidden tokens",
                 "must be at most 1 together with replaced", number_words(1 - masking->replaced)};
}

Verdict check_token(const Recipe& recipe, const Known&) {
  const auto& masking = recipe.data.masking;
  if (!masking) return {};
  if (!masking->token && recipe.data.tokenizer.kind == TokenizerKind::bytes)
    return Refusal{"\"auto\" finds no mask, as bytes have none",
                   "must be the id of the mask where data.tokenizer is \"bytes\""};
  if (!masking->token || *masking->token < recipe.model.vocab_size) return {};
  return Refusal{std::to_string(*masking->token) + " is no id of the model",
                 "must be below model.vocab_size (" + std::to_string(recipe.model.vocab_size) + ")"};
}

// Words are told by the texts of tokens.
Verdict check_whole_words(const Recipe& recipe, const Known&) {
  const auto& masking = recipe.data.masking;
  if (!masking || !masking->whole_words || recipe.data.tokenizer.kind != TokenizerKind::bytes) return {};
  const DataSource* const file = token_file_of(recipe.data);
  if (file == nullptr) return {};
  return Refusal{"true, but nothing says which tokens of " + shown_text(file->path) + " are pieces of a word",
                 "needs the tokenizer of the token files as data.tokenizer", "false"};
}

Verdict check_single_texts(const Recipe& recipe, const Known&) {
  const auto& masking = recipe.data.masking;
  if (!masking || !masking->single_texts) return {};
  if (recipe.data.document_mask)
    return Refusal{"true, with which each sequence has one document",
                   "must be false with data.document_mask, which keeps several apart", "false"};
  const DataSource* const file = token_file_of(recipe.data);
  if (file == nullptr) return {};
  return Refusal{"true, but " + shown_text(file->path) + " is a token file", "must be false with token files", "false"};
}

}  // namespace

std::vector<Rule> masking_rules() {
  return {
      {"/data/masking/random", {"/data/masking/replaced"}, check_shares},
      {"/data/masking/token", {"/data/tokenizer", "/model/vocab_size"}, check_token},
      {"/data/masking/whole_words", {"/data/tokenizer", "/data/train", "/data/validation"}, check_whole_words},
      {"/data/masking/single_texts", {"/data/document_mask", "/data/train", "/data/validation"}, check_single_texts},
      {"/data/masking",
       {"/model/architecture", "/model/classifier", "/data/train", "/data/labels", "/data/spans", "/data/fine_tuning",
        "/data/curriculum/sequence_length", "/data/curriculum/vocabulary_rarity"},
       check_masking},
  };
}

}  // namespace llmtrain
