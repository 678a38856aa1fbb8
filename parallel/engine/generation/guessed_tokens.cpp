// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/guessed_tokens.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace llmtrain {
namespace {

// `logits` has of each text, one after another, rows after its last token and after each guess.
Drafts::Counts add_guessed(const Drafts::Guesses& guesses, const at::Tensor& logits, const AddTokens& add) {
  Drafts::Counts counts;
  std::vector<std::size_t> texts(guesses.size());
  std::iota(texts.begin(), texts.end(), std::size_t{0});
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; const auto& guess : guesses) {
    rows.push_back(row);
    row += std::ssize(guess) + 1;
    counts.drafted += std::ssize(guess);
  }
  for (std::size_t round = 0; !texts.empty(); ++round) {
    const std::vector<ChosenToken> added = add(texts, logits, rows);
    std::vector<std::size_t> right_texts;
    std::vector<std::int64_t> next_rows;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::vector<std::int64_t>& guess = guesses[texts[i]];
      if (round == guess.size() || added[i].id != guess[round]) continue;
      ++counts.accepted;
      if (!added[i].goes_on) continue;
      right_texts.push_back(texts[i]);
      next_rows.push_back(rows[i] + 1);
    }
    texts = std::move(right_texts);
    rows = std::move(next_rows);
  }
  return counts;
}

// Lets the rank that decides guess, and tells all ranks what.
Drafts::Guesses agreed_guesses(const Decoder& decoder, const Drafting& drafting, std::span<const DraftedText> texts) {
  Drafts::Guesses guesses(texts.size());
  if (drafting.tokens == 0) return guesses;
  if (decoder.decides()) guesses = drafting.drafts->guess(texts);
  // Each text has the number of its guesses, and room for as many as there may be.
  const auto width = static_cast<std::size_t>(drafting.tokens) + 1;
  std::vector<double> words(width * texts.size(), 0);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    words[width * i] = static_cast<double>(guesses[i].size());
    std::ranges::copy(guesses[i], words.begin() + static_cast<std::ptrdiff_t>(width * i + 1));
  }
  words = decoder.agree(std::move(words));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto told = std::span(words).subspan(width * i, width);
    const auto own = told.subspan(1, static_cast<std::size_t>(told.front()));
    guesses[i].assign(own.begin(), own.end());
  }
  return guesses;
}

}  // namespace

void grow_texts(Decoder& decoder, const Drafting& drafting, std::vector<DraftedText> texts, const AddTokens& add) {
  if (texts.empty()) return;
  for (DraftedText& text : texts) text.most = std::min(text.most, drafting.tokens);
  const Drafts::Guesses guesses = agreed_guesses(decoder, drafting, texts);
  std::vector<std::vector<std::int64_t>> following(texts.size());
  std::vector<NewTokens> pieces;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    following[i] = {texts[i].tokens.back()};
    std::ranges::copy(guesses[i], std::back_inserter(following[i]));
    pieces.push_back({texts[i].place, std::ssize(texts[i].tokens) - 1, following[i]});
  }
  // Single tokens are apart anyway, as far as the device has that.
  const at::Tensor logits = decoder.logits(pieces, drafting.tokens > 0 ? Decoder::Rows::apart : Decoder::Rows::last);
  const Drafts::Counts counts = add_guessed(guesses, logits, add);
  if (drafting.drafts != nullptr) drafting.drafts->count(counts);
}

}  // namespace llmtrain
