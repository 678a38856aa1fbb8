// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/engine/generation/decoder.h"

namespace llmtrain {

// A text of which the model is asked how likely the end is.
struct ScoredText {
  std::vector<std::int64_t> tokens;
  std::int64_t first = 0;  // of the tokens that are asked for; at least 1, as the model begins with a token
};

// For each text log P(tokens from `first` on | tokens before), in nats. What all texts begin with is computed once. The
// decoder must have a sequence per text. Like in lm-evaluation-harness the model sees the last max_sequence_length
// tokens of a longer text. Throws Error(internal_error) if the tokens asked for do not fit there. Collective, as
// Decoder is.
std::vector<double> continuation_scores(Decoder& decoder, std::span<const ScoredText> texts, std::int64_t window);

}  // namespace llmtrain
