// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/graph/routing_sums.h"
#include "parallel/engine/generation/block_pool.h"
#include "parallel/engine/generation/decoder.h"
#include "parallel/engine/generation/drafts.h"
#include "parallel/engine/generation/logit_rules.h"
#include "parallel/engine/generation/token_choice.h"
#include "parallel/engine/local_model.h"
#include "parallel/shard/rank_lead.h"

namespace llmtrain {

// What texts that grow together may take.
struct BatchLimits {
  std::int64_t sequences = 16;
  std::int64_t cache_bytes = std::int64_t{1} << 30;  // of keys and values, at most, of each rank
  // Whether logits and log-probabilities are, bit for bit, those of a forward pass of training or evaluation over the
  // same tokens under kernels::SeparateRows (an exact replay). Prompts take longer. Models as require_exactness() has.
  bool is_exact = false;
  KeyValueType key_values = KeyValueType::compute;  // of an exact batch no other
  Drafting drafting{};
};

struct TextRequest {
  std::vector<std::int64_t> prompt{};  // at least one token
  std::int64_t tokens = 0;             // of the answer, at least one
  TokenChoice choice{};
  LogitRules rules{};
  TextNumber number{};                              // what its random numbers depend on, beside the seed
  std::optional<std::int64_t> log_probabilities{};  // asked for, with those of so many of the most likely tokens
  bool returns_experts = false;                     // of a model with experts
};

struct LikelyToken {
  std::int64_t id = 0;
  // In nats, of softmax(logits): before temperature, penalty and the choice of candidates. Of an exact batch the
  // negative of the trainer's loss, which is fp32.
  double log_probability = 0;
};

struct GrownToken {
  std::int64_t id = 0;
  std::optional<double> log_probability{};
  std::vector<LikelyToken> likeliest{};
  // Where asked for, of the tokens that were read since the one before: with the first those of the prompt, with each
  // other that of one.
  std::vector<TokenExperts> experts{};
};

// Texts that come and go while others grow (continuous batching: Yu et al., Orca, OSDI 2022, section 4): in each step
// every text that has been read grows by a token, or by those of its guesses that are right and one more, all in one
// pass, and one that waits reads a part of its prompt. A
// text is admitted, in the order in which texts were added, when a place is free and its cache fits: it has blocks for
// prompt and answer from the beginning, so that none that grows has to make room. On processors; not for threads.
//
// Ranks may split layers (tensor) and hold different ones (pipeline): each has a batch, and calls step() as often.
// Texts come to the rank that leads (RankLead), which chooses their tokens and tells the others of both, so that all of
// them admit, read and end the same texts in the same steps.
//
// What a text gets depends on its request and the model alone, bit for bit, logits and log-probabilities included, and
// is what generate() makes on the same layout: prompts are read in parts of fixed size with nothing beside them, and
// the products of single tokens are each row's own (kernels::SeparateRows). In an exact batch those of prompts are,
// too.
class ContinuousBatch {
 public:
  // The model outlives this. Collective. Throws Error(bad_recipe) that names the key where a text would not be what it
  // is alone (FP8 products of a batch that is not exact, whose scales are of all rows of a prompt), or what has no such
  // cache (a GPU), and where cache_bytes holds no block.
  ContinuousBatch(LocalModel& model, const BatchLimits& limits);

  // The most tokens that prompt and answer may have together.
  std::int64_t longest() const;

  // Throws Error(bad_data) where the request is longer than longest(), is empty, has ids that are not in the
  // vocabulary, or asks for experts that the model does not have. From any thread.
  void require_fit(const TextRequest& request) const;

  // Whether this rank is the one that texts come to, and are cancelled on.
  bool leads() const { return lead_.leads(); }

  // Gets every token as soon as it is chosen and says whether the text goes on; must not throw.
  using Listener = std::function<bool(const GrownToken&)>;
  // Returns the text's number, counted from 0. Throws what require_fit() does.
  std::int64_t add(TextRequest request, Listener listener);
  // Ends a text, if it has not ended, without a word to its listener. Not from within a listener.
  void cancel(std::int64_t text);

  // Whether any text was there to grow or be read. Collective.
  bool step();

  struct Load {
    std::int64_t waiting = 0, growing = 0;                      // texts
    std::int64_t blocks = 0, used_blocks = 0, block_bytes = 0;  // bytes: of the rank that has most
    Drafts::Counts drafts{};
  };
  Load load() const;

 private:
  struct Text {
    std::int64_t id = 0;
    TextRequest request{};
    Listener listener{};
    std::vector<std::int64_t> tokens{};   // of prompt and answer
    std::int64_t place = 0;               // its sequence in the cache
    std::int64_t read = 0;                // tokens of the prompt
    std::vector<TokenExperts> experts{};  // of tokens that were read since the listener was last told
    bool is_over = false;

    std::int64_t prompt_length() const { return static_cast<std::int64_t>(request.prompt.size()); }
  };

  std::int64_t blocks_for(const TextRequest& request) const;
  void require_lead() const;
  void end(std::int64_t text);
  // Makes the texts of this rank those of the rank that leads.
  void hear_changes();
  void admit();
  void read_prompt();
  void grow();
  // With its log-probabilities, as far as they are asked for.
  GrownToken chosen_token(const Text& text, const at::Tensor& logits) const;
  // A token of each of these texts, by its row of the logits, which the rank that leads has.
  void add_tokens(std::span<Text* const> texts, const at::Tensor& logits, std::span<const std::int64_t> rows);
  void remove_ended();
  // Notes the experts of `count` rows of the last pass, where they are asked for and told.
  void note_experts(Text& text, std::int64_t first, std::int64_t count) const;

  // Chosen, and heard by the listeners: of each text its token, and whether it is over with that.
  std::vector<std::int64_t> choose_tokens(std::span<Text* const> texts, const at::Tensor& logits,
                                          std::span<const std::int64_t> rows);

  LocalModel& model_;
  RankLead lead_;
  bool is_exact_;
  Drafting drafting_;
  std::int64_t block_bytes_;
  BlockPool pool_;
  Decoder decoder_;
  std::vector<std::int64_t> free_places_;
  std::deque<Text> waiting_;
  std::vector<Text> texts_;  // in the order of their admission
  std::int64_t added_ = 0, steps_ = 0;
  std::vector<std::int64_t> changes_;  // of the texts since the last step, for the other ranks
};

}  // namespace llmtrain
