// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/recipe/key_value_type.h"
#include "parallel/engine/generation/beam_hypotheses.h"
#include "parallel/engine/generation/drafts.h"
#include "parallel/engine/generation/logit_rules.h"
#include "parallel/engine/generation/token_choice.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

struct GenerateOptions {
  std::int64_t tokens = 200;  // of each text, without its prompt
  TokenChoice choice;
  LogitRules rules{};
  std::int64_t samples = 1;       // texts of each prompt
  std::int64_t first_prompt = 0;  // those before it are left out; numbers of texts count them
  std::int64_t batch = 16;        // texts that grow together
  KeyValueType key_values = KeyValueType::compute;
  // Not for encoder-decoders, beams, GPUs and products of FP8 numbers.
  Drafting drafting{};
  // For an encoder-decoder, whose prompts are sources: what its texts are written after. None of others.
  std::optional<std::int64_t> decoder_start{};
  std::optional<BeamSearch> beams{};                      // in place of the choice; texts are the best, in order
  std::optional<std::chrono::milliseconds> time_limit{};  // all texts end when it is exceeded
};

// What a text's first token is predicted after: its prompt, or the start of an encoder-decoder's targets.
std::vector<std::int64_t> beginning_of(const std::vector<std::int64_t>& prompt, const GenerateOptions& options);
std::int64_t longest_beginning(std::span<const std::vector<std::int64_t>> prompts, const GenerateOptions& options);

// Gets every token as soon as it is chosen, on every rank, and says whether the text goes on.
using TokenListener = std::function<bool(const TextNumber&, std::int64_t token)>;

// Continues each prompt (at least one token) token by token, and returns when all texts have ended. Each token costs
// the work of one token, with the keys and values of the others in memory (core/model/key_value_cache.h), as long as
// prompt and text are within max_sequence_length. From there on the model sees the last max_sequence_length tokens, so
// that with each token all positions change and the whole window is computed; texts of encoder-decoders and of beams
// end there. Each source of an encoder-decoder is encoded once, alone. Collective, as Decoder is: ranks generate the
// same texts. The same model, prompts and options give the same texts, whatever the batch and the layout, up to
// rounding in the logits, and unless the time limit ends them.
void generate(LocalModel& model, std::span<const std::vector<std::int64_t>> prompts, const GenerateOptions& options,
              const TokenListener& listener);

// One prompt, and all of it: returns prompt and continuation.
std::vector<std::int64_t> generate(LocalModel& model, std::vector<std::int64_t> prompt, const GenerateOptions& options);

}  // namespace llmtrain
