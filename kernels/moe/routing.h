// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "kernels/moe/expert_rows.h"

namespace llmtrain::kernels {

// How a router's logits decide on experts, in fp32 or float64.

struct RoutingRules {
  std::int64_t k = 0;       // experts of a token
  bool normalizes = false;  // whether a token's gates are divided by their sum
  bool keeps_log_sums = false;
};

// What the backward needs of T tokens.
struct RoutedTokens {
  at::Tensor probabilities;  // [T, E]: the softmax of the logits
  at::Tensor experts;        // int64 [T, k]: the most probable ones as of top_experts(), or those given
  at::Tensor gates;          // [T, k]: their probabilities, by the rules
  at::Tensor log_sums;       // [T]: log Σ_e exp logit_e; undefined unless kept
};

struct Routing {
  RoutedTokens tokens;
  at::Tensor scores;    // [T, k]: the chosen experts' probabilities
  at::Tensor partials;  // what a GPU's kernel has added up for routing_totals(); else undefined
};

// logits [T, E]. Given experts (int64 [T, k], on the logits' device) are taken whatever the logits say; undefined:
// none. On a GPU nobody waits, here and below.
Routing route_tokens(const at::Tensor& logits, const RoutingRules& rules, const at::Tensor& given);

// Sums over these tokens, float64 [3·E + 3]: those whose first choice is each expert, those that choose it, its
// probabilities; (log Σ_e exp logit_e)², 0 where these are not kept; choices that have a row; entropies.
at::Tensor routing_totals(const Routing& routing, const ExpertRows& map);

// What the totals of all of a micro-batch's T tokens say, float64 [6]: 1; E ÷ T² · Σ_e first choices · probabilities,
// which is GShard's loss; the mean z; the share of choices without a row; the most tokens of an expert, 1 where all
// have as many; the mean entropy, 1 where all are equally probable (0 of one expert).
struct RoutingSummary {
  at::Tensor sums;
  at::Tensor first;  // [E]: the tokens whose first choice is each expert, in the type given; undefined without one
};
RoutingSummary routing_summary(const at::Tensor& totals, std::int64_t experts, std::int64_t tokens, std::int64_t k,
                               std::optional<at::ScalarType> first);

// Terms of the loss whose gradient is added to that of the gates.
struct RoutingTerms {
  at::Tensor first;  // [E]: its multiple by first_scale is added to each token's gradient of the
                     // probabilities; undefined: none
  double first_scale = 0;
  double log_sum_scale = 0;  // d loss ÷ d log_sums ÷ log_sums, where these are kept
};

// The gradient of the logits [T, E]. `dgates` [T, k].
at::Tensor route_backward(const at::Tensor& dgates, const RoutedTokens& tokens, const RoutingRules& rules,
                          const RoutingTerms& terms);

}  // namespace llmtrain::kernels
