// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/drafts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <numeric>

namespace llmtrain {
namespace {

// The most tokens that a text must have had before to say what follows: fewer are tried where so many are nowhere.
constexpr std::int64_t longest_match = 3;

// What followed the last place before the end that has the text's last `length` tokens; none: nowhere.
std::span<const std::int64_t> following(std::span<const std::int64_t> tokens, std::int64_t length) {
  if (std::ssize(tokens) <= length) return {};
  const auto last = tokens.last(static_cast<std::size_t>(length));
  const auto before = tokens.first(tokens.size() - 1);
  const auto found = std::find_end(before.begin(), before.end(), last.begin(), last.end());
  if (found == before.end()) return {};
  return tokens.subspan(static_cast<std::size_t>(found - before.begin() + length));
}

}  // namespace

ModelDrafts::ModelDrafts(LocalModel& model, std::int64_t places, std::int64_t capacity)
    : decoder_(model, places, std::min(capacity, model.graph().model.max_sequence_length)),
      window_(model.graph().model.max_sequence_length),
      read_(static_cast<std::size_t>(places)) {}

NewTokens ModelDrafts::catch_up(const DraftedText& text) {
  std::vector<std::int64_t>& read = read_[static_cast<std::size_t>(text.place)];
  // What was guessed and did not come is overwritten, and so is another text that had the place.
  const auto [has, differs] = std::ranges::mismatch(read, text.tokens);
  auto begin = std::min(has - read.begin(), std::ssize(text.tokens) - 1);
  read.assign(text.tokens.begin(), text.tokens.end());
  for (; std::ssize(text.tokens) - begin > Decoder::prompt_chunk; begin += Decoder::prompt_chunk) {
    const auto part = text.tokens.subspan(static_cast<std::size_t>(begin), Decoder::prompt_chunk);
    decoder_.read(std::array{NewTokens{text.place, begin, part}});
  }
  return {text.place, begin, text.tokens.subspan(static_cast<std::size_t>(begin))};
}

Drafts::Guesses ModelDrafts::guess(std::span<const DraftedText> texts) {
  Guesses guesses(texts.size());
  std::vector<NewTokens> pieces;
  std::vector<std::size_t> guessed;  // the texts of the pieces
  const auto most_of = [&](std::size_t text) {
    return std::min(texts[text].most, window_ - std::ssize(texts[text].tokens) + 1);
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (most_of(i) <= 0) continue;
    pieces.push_back(catch_up(texts[i]));
    guessed.push_back(i);
  }
  while (!pieces.empty()) {
    const at::Tensor logits = decoder_.logits(pieces);
    pieces.clear();
    std::vector<std::size_t> still;
    for (std::size_t row = 0; row < guessed.size(); ++row) {
      const std::size_t i = guessed[row];
      const DraftedText& text = texts[i];
      std::vector<std::int64_t>& read = read_[static_cast<std::size_t>(text.place)];
      const at::Tensor scores = logits.select(0, static_cast<std::int64_t>(row));
      guesses[i].push_back(choose_token({scores.const_data_ptr<float>(), static_cast<std::size_t>(scores.size(0))},
                                        text.rules, text.choice, text.number,
                                        {text.index + std::ssize(guesses[i]), text.limit, read}));
      if (std::ssize(guesses[i]) == most_of(i)) continue;
      read.push_back(guesses[i].back());
      pieces.push_back({text.place, std::ssize(read) - 1, std::span(read).last(1)});
      still.push_back(i);
    }
    guessed = std::move(still);
  }
  return guesses;
}

Drafts::Guesses LookupDrafts::guess(std::span<const DraftedText> texts) {
  Guesses guesses(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    for (std::int64_t length = longest_match; length > 0 && guesses[i].empty(); --length) {
      const auto found = following(texts[i].tokens, length);
      const auto count = std::min(std::max<std::int64_t>(texts[i].most, 0), std::ssize(found));
      guesses[i].assign(found.begin(), found.begin() + count);
    }
  return guesses;
}

}  // namespace llmtrain
