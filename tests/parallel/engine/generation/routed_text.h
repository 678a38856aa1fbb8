// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/engine/generation/continuous_batch.h"

namespace llmtrain::test {

// A text as a batch has told it to listener_of(), behind its prompt.
struct RoutedText {
  std::vector<std::int64_t> tokens;  // with the prompt
  std::vector<double> log_probabilities;
  std::vector<TokenExperts> experts;
  bool operator==(const RoutedText&) const = default;
};

// The text outlives it.
inline ContinuousBatch::Listener listener_of(RoutedText& text) {
  return [&text](const GrownToken& token) {
    text.tokens.push_back(token.id);
    text.log_probabilities.push_back(token.log_probability.value());
    text.experts.insert(text.experts.end(), token.experts.begin(), token.experts.end());
    return true;
  };
}

}  // namespace llmtrain::test
