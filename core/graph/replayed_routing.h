// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// For each expert of a layer the share of the tokens that choose it: at most 1 each, top_k together.
using ExpertShares = std::vector<double>;

// Shares in the proportion of `weights`, not negative, as far as no expert gets more than all tokens; experts of weight
// 0 get none, unless the others are fewer than top_k.
ExpertShares shares_by_weight(std::span<const double> weights, std::int64_t top_k);

// Whole numbers of `tokens` tokens in the proportion of the shares, by the largest remainder: at most `tokens` each and
// tokens · top_k together.
std::vector<std::int64_t> counts_by_share(const ExpertShares& shares, std::int64_t tokens, std::int64_t top_k);

// Where tokens go in place of their router's choices (model.moe.routing_zipf, model.moe.routing_trace): what `plan`
// prices, and `run` then does.
class ReplayedRouting {
 public:
  // The model must have experts and replay a routing. Throws Error(missing_input) without the trace, Error(bad_data)
  // where it is none or of another model; the message names the file and the line.
  explicit ReplayedRouting(const ModelRecipe& model);

  // What the layer's experts get in a step counted from 0. The layer must have experts. After its last step a trace
  // begins again.
  const ExpertShares& shares(std::int64_t layer, std::int64_t step) const;
  // What a plan prices: the step of the trace in which the layer's fullest expert has the median share.
  const ExpertShares& typical_shares(std::int64_t layer) const;
  // Whether layers may differ.
  bool depends_on_layer() const { return zipf_.empty(); }

 private:
  void read_trace(const ModelRecipe& model, const std::string& file);

  ExpertShares zipf_;                                         // of all layers; empty with a trace
  std::map<std::int64_t, std::vector<ExpertShares>> traced_;  // by layer, then step
  std::map<std::int64_t, std::size_t> typical_;               // step
};

// The experts of each token of a step, such that every expert gets its share of the whole step to a token, and of any
// run of tokens nearly so: exactly, where the run's length is a product of the smallest prime factors of the number of
// tokens, its start a multiple of it, and the shares of it whole numbers. A function of the token's index in the
// global batch, so it does not depend on the layout.
//
// Experts are intervals on a line of tokens · top_k points, as long as their counts. A token takes top_k points whose
// distances are multiples of `tokens`: no expert is that long, so they are different experts (systematic sampling,
// Madow 1949). Neighbouring tokens are sent far apart by reversing the digits of their index (van der Corput 1935) in
// the mixed radix of the prime factors of `tokens`.
class SpreadChoices {
 public:
  SpreadChoices(const ExpertShares& shares, std::int64_t tokens, std::int64_t top_k);

  // The tokens of the step that choose the expert.
  std::int64_t count(std::size_t expert) const { return ends_[expert] - (expert == 0 ? 0 : ends_[expert - 1]); }
  // Writes top_k different experts.
  void choose(std::int64_t token, std::span<std::int64_t> experts) const;

 private:
  std::int64_t tokens_;
  std::vector<std::int64_t> ends_;     // of the experts' intervals
  std::vector<std::int64_t> radices_;  // prime factors of the tokens, ascending
};

}  // namespace llmtrain
