// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_pairs(const Recipe& recipe, const Known&) {
  const DataRecipe& data = recipe.data;
  if (!data.pairs) {
    if (!is_encoder_decoder(recipe.model.architecture) || data.train.empty() || data.denoising) return {};
    return Refusal{"null, with which an encoder-decoder would have no source to read",
                   "must be a section, such as {\"source\": \"de\", \"target\": \"en\"}, with an encoder-decoder",
                   "{}"};
  }
  if (is_encoder(recipe.model.architecture))
    return Refusal{"has targets that a decoder writes, and this model is an encoder alone",
                   "must be null where model.architecture is an encoder's", "null"};
  if (data.tokenizer.kind == TokenizerKind::bytes)
    return Refusal{"has targets whose end is predicted, and bytes have no mark for it",
                   "needs a data.tokenizer that puts one behind texts", "null"};
  return must_be_alone(data, "pairs of texts in rows",
                       {{"denoising", data.denoising.has_value()}, {"labels", data.labels.has_value()}});
}

Verdict check_pairs_start(const Recipe& recipe, const Known&) {
  const auto& pairs = recipe.data.pairs;
  if (!pairs || !pairs->decoder_start || *pairs->decoder_start < recipe.model.vocab_size) return {};
  return Refusal{std::to_string(*pairs->decoder_start) + " is no id of the model",
                 "must be below model.vocab_size (" + std::to_string(recipe.model.vocab_size) + ")"};
}

Verdict check_pairs_length(const Recipe& recipe, const Known&) {
  const auto& pairs = recipe.data.pairs;
  const std::int64_t longest = recipe.model.max_sequence_length;
  if (!pairs || !pairs->target_length || *pairs->target_length <= longest) return {};
  return Refusal{std::to_string(*pairs->target_length) + " is too long",
                 "must be at most model.max_sequence_length (" + std::to_string(longest) + ")",
                 std::to_string(longest)};
}

Verdict check_pairs_context(const Recipe& recipe, const Known&) {
  const std::int64_t context = recipe.parallel.context;
  if ((!recipe.data.pairs && !recipe.data.denoising) || context == 1) return {};
  return Refusal{std::to_string(context) + " splits sequences, of which a target sees all of its source",
                 recipe.data.pairs ? "must be 1 with data.pairs" : "must be 1 with data.denoising", "1"};
}

Verdict check_generation(const Recipe& recipe, const Known&) {
  if (!recipe.training.generation) return {};
  if (!is_encoder_decoder(recipe.model.architecture))
    return Refusal{"has targets written of sources, and this model reads none",
                   "needs an encoder-decoder as model.architecture", "null"};
  if (recipe.data.pairs) return {};
  return Refusal{"compares targets with those of data.pairs, which is null", "needs data.pairs", "null"};
}

}  // namespace

std::vector<Rule> pair_rules() {
  return {
      {"/data/pairs/decoder_start", {"/model/vocab_size"}, check_pairs_start},
      {"/data/pairs/target_length", {"/model/max_sequence_length"}, check_pairs_length},
      {"/data/pairs",
       {"/model/architecture", "/data/train", "/data/tokenizer", "/data/fine_tuning", "/data/masking",
        "/data/denoising", "/data/labels", "/data/document_mask", "/data/curriculum/sequence_length",
        "/data/curriculum/vocabulary_rarity"},
       check_pairs},
      {"/parallel/context", {"/data/pairs", "/data/denoising"}, check_pairs_context},
      {"/training/generation", {"/model/architecture", "/data/pairs"}, check_generation},
  };
}

}  // namespace llmtrain
