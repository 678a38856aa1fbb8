// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "parallel/engine/generation/logit_rules.h"

namespace llmtrain {

// How the next token is chosen from the logits. The rules apply in the order of the fields, as in transformers'
// generate().
struct TokenChoice {
  double temperature = 0.8;  // divides the logits; 0: always the most likely token
  std::int64_t top_k = 0;    // candidates are the k most likely tokens; 0: all
  double top_p = 1;          // and of these the fewest whose probabilities add up to p (Holtzman et al., arXiv
                             // 1904.09751, section 3.1); 1: all
  std::int64_t seed = 1234;
};

// Which text a token belongs to. With the token's index they are all that its random number depends on, beside the
// seed: not on other texts, nor on the layout.
struct TextNumber {
  std::int64_t prompt = 0;
  std::int64_t sample = 0;  // of several texts with one prompt

  bool operator==(const TextNumber&) const = default;
};

// The token that follows, as number `index` (from 0) of those generated for this text. Of equally likely tokens the one
// with the lower id comes first.
std::int64_t choose_token(std::span<const float> logits, const TokenChoice& choice, const TextNumber& text,
                          std::int64_t index);
// The same under rules, for the token at this place. The logits stay as they are: other texts may begin with them, too.
std::int64_t choose_token(std::span<const float> logits, const LogitRules& rules, const TokenChoice& choice,
                          const TextNumber& text, const TokenPlace& place);

}  // namespace llmtrain
