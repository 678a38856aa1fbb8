// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace llmtrain {

// What the next token may be, whatever the model says: the rules apply in the order of the fields, as transformers'
// generate() has them.
struct LogitRules {
  // For the tokens that the text has already, its prompt included, it divides positive scores and multiplies negative
  // ones (Keskar et al., arXiv 1909.05858, section 4.1, as transformers' RepetitionPenaltyLogitsProcessor has it); 1:
  // off.
  double repetition_penalty = 1;
  std::int64_t no_repeat_ngram_size = 0;       // no sequence of so many tokens twice; 0: any
  std::optional<std::int64_t> forced_first{};  // the first token that is written
  std::optional<std::int64_t> forced_last{};   // the last one, where a text is as long as it may be

  // Whether they may change anything.
  bool are_any() const { return repetition_penalty != 1 || no_repeat_ngram_size > 0 || forced_first || forced_last; }
};

// The place of a token in its text.
struct TokenPlace {
  std::int64_t index = 0;                  // among those that are written
  std::int64_t most = 0;                   // that are written
  std::span<const std::int64_t> before{};  // all tokens of the text so far, its prompt or what its decoder begins with
};

// Changes scores [V], logits or logarithms of probabilities, of the token that follows. Tokens beyond them have none.
void apply(const LogitRules& rules, const TokenPlace& place, std::span<float> scores);

}  // namespace llmtrain
