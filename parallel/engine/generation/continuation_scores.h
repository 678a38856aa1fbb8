// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/routing_sums.h"
#include "parallel/engine/generation/decoder.h"
#include "parallel/engine/local_model.h"

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

// Throws Error(bad_data) for ids that are not in the vocabulary, and where the text has less than two tokens or more
// than one beyond max_sequence_length; so many tensor ranks read a multiple of their number.
void require_text(const Graph& graph, std::span<const std::int64_t> tokens, std::int64_t tensor_ranks = 1);

// For each token of the text but its first, the negative of the loss that a pass of evaluation over the text alone has
// there: log P(token | tokens before), in nats, as fp32 has it. `experts`: those to which all tokens but the last go,
// as require_routing() has them; empty: their routers choose. Experts drop no token. The text is one that
// require_text() accepts. Collective, as a pass is: ranks with the head have the result, and the others an empty one.
std::vector<double> log_probabilities_of(LocalModel& model, std::span<const std::int64_t> tokens,
                                         std::span<const TokenExperts> experts = {});

}  // namespace llmtrain
