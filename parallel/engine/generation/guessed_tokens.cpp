// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/guessed_tokens.h"

#include <iterator>
#include <numeric>
#include <utility>

namespace llmtrain {

Drafts::Counts add_guessed(const Drafts::Guesses& guesses, const AddTokens& add) {
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
    const std::vector<ChosenToken> added = add(texts, rows);
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

}  // namespace llmtrain
