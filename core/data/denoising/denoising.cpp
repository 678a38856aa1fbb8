// SPDX-License-Identifier: Apache-2.0
#include "core/data/denoising/denoising.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/data/masking/token_kinds.h"
#include "core/recipe/step_shapes.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

[[noreturn]] void refuse(const Recipe& recipe, const std::string& why) {
  throw Error(ExitCode::bad_data, recipe.data.tokenizer.file + ": " + why);
}

void add_marks(const Recipe& recipe, const Tokenizer& tokenizer, Denoising& denoising) {
  using Piece = ExampleTemplate::Piece;
  bool is_behind = false;
  for (const Piece& piece : example_template(recipe.data.tokenizer, tokenizer).single) {
    if (piece.kind != Piece::Kind::mark)
      is_behind = true;
    else
      (is_behind ? denoising.behind : denoising.before).push_back(piece.id);
  }
  if (denoising.behind.empty())
    refuse(recipe,
           "puts no mark at the end of a text, by which a model of data.denoising tells that a target ends; "
           "needs a tokenizer that does");
  const auto padding = padding_of_tokenizer(recipe.data.tokenizer, tokenizer);
  const auto start = denoising.recipe.decoder_start ? denoising.recipe.decoder_start : padding;
  if (!start)
    refuse(recipe,
           "names no padding, which begins what a decoder reads; data.denoising.decoder_start must be the id of "
           "another token");
  denoising.padding = padding.value_or(0);
  denoising.decoder_start = *start;
}

// The tokens <extra_id_0>, <extra_id_1>, … as far as there are all, at most so many.
std::vector<std::int64_t> sentinels_of(const Tokenizer& tokenizer, std::int64_t most) {
  const auto encoder = tokenizer.make_encoder();
  const auto ids_of = [&](const std::string& text) {
    std::vector<TokenId> ids;
    encoder->encode(text, ids);
    return ids;
  };
  // What a tokenizer has no token for may be one unknown token, whatever it is.
  const std::vector<TokenId> unknown = ids_of("<extra_id_none>");
  std::vector<std::int64_t> sentinels;
  while (std::ssize(sentinels) < most) {
    const std::vector<TokenId> ids = ids_of(fmt::format("<extra_id_{}>", sentinels.size()));
    if (ids.size() != 1 || ids == unknown) break;
    sentinels.push_back(ids.front());
  }
  return sentinels;
}

void add_sentinels(const Recipe& recipe, const Tokenizer& tokenizer, Denoising& denoising) {
  const std::int64_t parts = span_counts(denoising.recipe, denoising.longest).spans;
  denoising.sentinels = sentinels_of(tokenizer, parts);
  const std::int64_t found = std::ssize(denoising.sentinels);
  if (found == 0)
    refuse(recipe,
           "has no marks <extra_id_0>, <extra_id_1>, … that stand for parts of a text, as T5's has; "
           "data.denoising.noise must be \"infilling\"");
  if (found < parts)
    refuse(recipe, fmt::format("has {} marks from <extra_id_0> on, and a text of {} tokens has {} parts "
                               "(data.denoising); lower batch.sequence_length or raise data.denoising.mean_span",
                               found, denoising.longest, parts));
}

void add_mask(const Recipe& recipe, const TokenKinds& kinds, Denoising& denoising) {
  const auto mask = denoising.recipe.token ? denoising.recipe.token : kinds.mask;
  if (!mask)
    refuse(recipe,
           "has no token that masks others ([MASK] or <mask>, or what a tokenizer_config.json beside it calls "
           "mask_token); data.denoising.token must be the id of one");
  denoising.mask = *mask;
}

std::vector<SentenceRow> sentence_rows(const Tokenizer& tokenizer, const TokenKinds& kinds) {
  std::vector<SentenceRow> rows(kinds.is_special.size());
  for (std::size_t id = 0; id < rows.size(); ++id) {
    const std::string text = tokenizer.decode_continuation(std::array{static_cast<std::int64_t>(id)});
    rows[id].is_mark = kinds.is_special[id];
    rows[id].ends_sentence = !text.empty() && std::string_view(".!?").find(text.back()) != std::string_view::npos;
  }
  return rows;
}

}  // namespace

std::shared_ptr<const Denoising> denoising_of(const Recipe& recipe) {
  if (!recipe.data.denoising) return nullptr;
  const auto tokenizer = open_tokenizer(recipe.data.tokenizer, recipe.model.vocab_size);
  auto denoising = std::make_shared<Denoising>();
  denoising->recipe = *recipe.data.denoising;
  denoising->source_length = recipe.batch.sequence_length;
  denoising->target_length = denoising_target_length(denoising->recipe, recipe.batch.sequence_length);
  add_marks(recipe, *tokenizer, *denoising);
  denoising->longest =
      longest_text(denoising->recipe, denoising->source_length, denoising->target_length, denoising->marks());
  if (denoising->longest < 2)
    refuse(recipe,
           fmt::format("puts {} marks around a text, which with a row of padding leave no room for two tokens of "
                       "it; raise batch.sequence_length ({} here)",
                       denoising->marks(), denoising->source_length));
  if (denoising->recipe.noise == Noise::spans) {
    add_sentinels(recipe, *tokenizer, *denoising);
    return denoising;
  }
  const TokenKinds kinds = token_kinds(recipe.data.tokenizer, *tokenizer);
  add_mask(recipe, kinds, *denoising);
  if (denoising->recipe.permute_sentences) denoising->rows = sentence_rows(*tokenizer, kinds);
  return denoising;
}

}  // namespace llmtrain
