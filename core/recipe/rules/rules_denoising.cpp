// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_denoising(const Recipe& recipe, const Known&) {
  const DataRecipe& data = recipe.data;
  if (!data.denoising) return {};
  if (!is_encoder_decoder(recipe.model.architecture))
    return Refusal{"has damaged texts that a decoder restores, and this model has no encoder to read them",
                   "needs an encoder-decoder as model.architecture", "null"};
  if (data.tokenizer.kind == TokenizerKind::bytes)
    return Refusal{"puts marks in place of tokens, and bytes have none", "needs a data.tokenizer that has such marks",
                   "null"};
  return must_be_alone(data, "texts", {{"labels", data.labels.has_value()}, {"pairs", data.pairs.has_value()}});
}

Verdict must_be_an_id(const Recipe& recipe, const std::optional<std::int64_t>& id) {
  if (!id || *id < recipe.model.vocab_size) return {};
  return Refusal{std::to_string(*id) + " is no id of the model",
                 "must be below model.vocab_size (" + std::to_string(recipe.model.vocab_size) + ")"};
}

bool are_spans(const Recipe& recipe) { return recipe.data.denoising->noise == Noise::spans; }

Verdict check_denoising_mask(const Recipe& recipe, const Known&) {
  const auto& denoising = recipe.data.denoising;
  if (!denoising || !denoising->token) return {};
  if (are_spans(recipe))
    return Refusal{std::to_string(*denoising->token) + " is a mask, and parts of texts have marks of their own",
                   "must be \"auto\" where data.denoising.noise is \"spans\"", "\"auto\""};
  return must_be_an_id(recipe, denoising->token);
}

Verdict check_denoising_start(const Recipe& recipe, const Known&) {
  return recipe.data.denoising ? must_be_an_id(recipe, recipe.data.denoising->decoder_start) : Verdict{};
}

Verdict check_permutation(const Recipe& recipe, const Known&) {
  const auto& denoising = recipe.data.denoising;
  if (!denoising || !denoising->permute_sentences || !are_spans(recipe)) return {};
  return Refusal{"true, but a target is the parts that were taken out, in their order",
                 "must be false where data.denoising.noise is \"spans\"", "false"};
}

Verdict check_denoising_texts(const Recipe& recipe, const Known&) {
  const auto& denoising = recipe.data.denoising;
  if (!denoising || !denoising->single_texts) return {};
  const DataSource* const file = token_file_of(recipe.data);
  if (file == nullptr) return {};
  return Refusal{"true, but " + shown_text(file->path) + " is a token file", "must be false with token files", "false"};
}

}  // namespace

std::vector<Rule> denoising_rules() {
  return {
      {"/data/denoising/token", {"/data/denoising/noise", "/model/vocab_size"}, check_denoising_mask},
      {"/data/denoising/decoder_start", {"/model/vocab_size"}, check_denoising_start},
      {"/data/denoising/permute_sentences", {"/data/denoising/noise"}, check_permutation},
      {"/data/denoising/single_texts", {"/data/train", "/data/validation"}, check_denoising_texts},
      {"/data/denoising",
       {"/model/architecture", "/data/tokenizer", "/data/fine_tuning", "/data/masking", "/data/labels", "/data/pairs",
        "/data/document_mask", "/data/curriculum/sequence_length", "/data/curriculum/vocabulary_rarity"},
       check_denoising},
  };
}

}  // namespace llmtrain
