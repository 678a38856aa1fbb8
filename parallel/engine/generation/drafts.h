// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/engine/generation/decoder.h"
#include "parallel/engine/generation/logit_rules.h"
#include "parallel/engine/generation/token_choice.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// A text that grows, of which tokens that may follow are guessed. What it refers to outlives the call.
struct DraftedText {
  std::int64_t place = 0;  // among the texts that grow together
  std::span<const std::int64_t> tokens{};
  std::int64_t most = 0;   // tokens to guess, at most
  std::int64_t index = 0;  // of the first of them among those that are written
  std::int64_t limit = 0;  // of tokens that are written
  const TokenChoice& choice;
  const LogitRules& rules;
  TextNumber number{};
};

// Guesses at the tokens that follow, which a model then computes in one pass (speculative decoding: Leviathan et al.,
// arXiv 2211.17192, section 2; Chen et al., arXiv 2302.01318). A guess counts where it is the token that the model's
// own logits choose, with the random number of its place: so texts have the tokens that they have without guesses,
// where those papers keep their distribution alone. Not for threads.
class Drafts {
 public:
  virtual ~Drafts() = default;
  // For each text up to `most` tokens, or none.
  using Guesses = std::vector<std::vector<std::int64_t>>;
  virtual Guesses guess(std::span<const DraftedText> texts) = 0;

  // What came of them.
  struct Counts {
    std::int64_t drafted = 0, accepted = 0;
  };
  void count(const Counts& more) { counts_ = {counts_.drafted + more.drafted, counts_.accepted + more.accepted}; }
  const Counts& counts() const { return counts_; }

 private:
  Counts counts_;
};

// Who guesses for texts, and how many tokens at once. Ranks that share a model have the same number, and the one that
// decides (Decoder::decides()) has who guesses.
struct Drafting {
  Drafts* drafts = nullptr;  // outlives whoever has this
  std::int64_t tokens = 0;   // 0: nobody guesses
};

// A smaller model's choices. It takes the random numbers that the text's own model will take, so that both choose the
// same where their probabilities are close.
class ModelDrafts final : public Drafts {
 public:
  // For so many places with up to `capacity` tokens. The model, a decoder on one rank, outlives this; it guesses
  // nothing beyond its max_sequence_length.
  ModelDrafts(LocalModel& model, std::int64_t places, std::int64_t capacity);

  Guesses guess(std::span<const DraftedText> texts) override;

 private:
  // Takes in what the decoder does not have of the text, except for its last tokens, which are returned: few, and at
  // least one.
  NewTokens catch_up(const DraftedText& text);

  Decoder decoder_;
  std::int64_t window_;
  std::vector<std::vector<std::int64_t>> read_;  // of each place, by position
};

// What followed the text's last tokens where it had them before (prompt lookup): for texts that repeat parts of
// their prompts, such as summaries and changed programs.
class LookupDrafts final : public Drafts {
 public:
  Guesses guess(std::span<const DraftedText> texts) override;
};

}  // namespace llmtrain
