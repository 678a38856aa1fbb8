// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/date.h"
#include "core/json/json_text.h"
#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

// The key by which documents that share a sequence are kept apart; null: they are not.
const char* key_of_documents(const Recipe& recipe) {
  if (recipe.data.document_mask) return "data.document_mask is given";
  if (recipe.data.labels) return "data.labels is given";
  if (recipe.data.spans) return "data.spans is given";
  if (recipe.data.pairs) return "data.pairs is given";
  if (recipe.data.masking && recipe.data.masking->single_texts) return "data.masking.single_texts is true";
  return recipe.data.fine_tuning && recipe.data.fine_tuning->packing ? "data.fine_tuning.packing is true" : nullptr;
}

// Masks are a function of the element's place among all pairs of a sequence's tokens, which attention within documents
// does not compute. Encoder-decoders drop nothing there.
Verdict check_dropout(const Recipe& recipe, const Known&) {
  const char* const key = key_of_documents(recipe);
  if (key == nullptr || recipe.model.dropout == 0 || is_encoder_decoder(recipe.model.architecture)) return {};
  return Refusal{number_words(recipe.model.dropout) + " cannot be used with attention within documents",
                 std::string("must be 0 where ") + key, "0"};
}

Verdict check_mask(const Recipe& recipe, const Known&) {
  if (!recipe.data.document_mask || !recipe.data.fine_tuning) return {};
  return Refusal{"is for text and token files",
                 "must be null with data.fine_tuning, whose packing keeps documents apart", "null"};
}

// Token files may have an index that says where their documents begin.
bool are_token_files(const std::vector<DataSource>& sources) {
  return std::ranges::all_of(sources, [](const DataSource& source) { return source.path.ends_with(".bin"); });
}

Verdict check_end_of_text(const Recipe& recipe, const Known&) {
  const DataRecipe& data = recipe.data;
  if (!data.document_mask) return {};
  const auto& end = data.document_mask->end_of_text;
  const bool may_be_indexed = !data.train.empty() && are_token_files(data.train) && are_token_files(data.validation);
  if (!end && data.tokenizer.kind == TokenizerKind::bytes && !may_be_indexed)
    return Refusal{"\"auto\" finds no mark, as bytes have none",
                   "must be the id that ends documents where data.tokenizer is \"bytes\""};
  if (!end || *end < recipe.model.vocab_size) return {};
  return Refusal{std::to_string(*end) + " is no id of the model",
                 "must be below model.vocab_size (" + std::to_string(recipe.model.vocab_size) + ")"};
}

Verdict check_date(const Recipe& recipe, const Known&) {
  const auto& fine_tuning = recipe.data.fine_tuning;
  if (!fine_tuning || !fine_tuning->date || date_of(*fine_tuning->date)) return {};
  return Refusal{shown_text(*fine_tuning->date) + " is no date", "must be a day as in 2024-07-26"};
}

Verdict check_routing_replay(const Recipe& recipe, const Known&) {
  const auto& fine_tuning = recipe.data.fine_tuning;
  const auto& moe = recipe.model.moe;
  if (!fine_tuning || !fine_tuning->routing_replay) return {};
  const auto refused = [](const char* what, const char* with) {
    return Refusal{what, std::string("must be false with") + with, "false"};
  };
  if (!moe) return refused("sends tokens to experts, of which the model has none", "out model.moe");
  if (moe->replays())
    return refused("is a second source of the routing", " model.moe.routing_zipf and model.moe.routing_trace");
  if (recipe.training.token_dropping)
    return refused("tells experts of all tokens, of which layers see some", " training.token_dropping");
  if (recipe.model.multi_token_prediction)
    return refused("tells experts of the model's layers alone", " model.multi_token_prediction");
  return {};
}

// Conversations have names of their own for keys, and tokens have none.
Verdict check_text_keys(const Recipe& recipe, const std::vector<DataSource>& sources) {
  for (const DataSource& source : sources) {
    if (source.text_key == document_key) continue;
    const std::string named = shown_text(source.text_key) + " is the text_key of " + shown_text(source.path);
    if (recipe.data.labels) return Refusal{named, "must be left out with data.labels, which names the keys of rows"};
    if (recipe.data.spans) return Refusal{named, "must be left out with data.spans, which names the keys of rows"};
    if (recipe.data.pairs) return Refusal{named, "must be left out with data.pairs, which names the keys of rows"};
    if (recipe.data.images) return Refusal{named, "must be left out with data.images, which have no keys"};
    if (recipe.data.fine_tuning)
      return Refusal{named, "must be left out with data.fine_tuning, whose \"fields\" name the keys of conversations"};
    if (source.path.ends_with(".bin"))
      return Refusal{named, "must be left out where the source is a token file, which has no keys"};
  }
  return {};
}

Verdict check_train_keys(const Recipe& recipe, const Known&) { return check_text_keys(recipe, recipe.data.train); }

Verdict check_validation_keys(const Recipe& recipe, const Known&) {
  return check_text_keys(recipe, recipe.data.validation);
}

}  // namespace

std::vector<Rule> document_rules() {
  return {
      {"/data/train",
       {"/data/fine_tuning", "/data/labels", "/data/spans", "/data/pairs", "/data/images"},
       check_train_keys},
      {"/data/validation",
       {"/data/fine_tuning", "/data/labels", "/data/spans", "/data/pairs", "/data/images"},
       check_validation_keys},
      {"/data/fine_tuning/date", {}, check_date},
      {"/data/fine_tuning/routing_replay",
       {"/model/moe/experts", "/model/moe/routing_zipf", "/model/moe/routing_trace", "/model/multi_token_prediction",
        "/training/token_dropping"},
       check_routing_replay},
      {"/model/dropout",
       {"/data/fine_tuning", "/data/document_mask", "/data/masking/single_texts", "/data/labels", "/data/spans",
        "/data/pairs"},
       check_dropout},
      {"/data/document_mask", {"/data/fine_tuning"}, check_mask},
      {"/data/document_mask/end_of_text",
       {"/data/tokenizer", "/data/train", "/data/validation", "/model/vocab_size"},
       check_end_of_text},
  };
}

}  // namespace llmtrain
