// SPDX-License-Identifier: Apache-2.0
#include "kernels/moe/routing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/special_entr.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "kernels/cuda_operators/moe/routing.h"

namespace llmtrain::kernels {
namespace {

// How many of the choices are each of `count` experts, float64: whole numbers, whose sums have no rounding and no
// order.
at::Tensor chosen_by(const at::Tensor& choices, std::int64_t count) {
  const at::Tensor flat = choices.flatten(), ones = at::ones(flat.sizes(), flat.options().dtype(at::kDouble));
  return at::zeros({count}, ones.options()).scatter_add_(0, flat, ones);
}

// How many choices have a row, float64 [1].
at::Tensor kept_choices(const ExpertRows& map) {
  if (map.ends.defined()) return map.ends.narrow(0, map.experts() - 1, 1).to(at::kDouble);
  return at::full({1}, static_cast<double>(map.rows()), at::kDouble);
}

// The gradient of the chosen experts' probabilities.
at::Tensor score_gradient(const at::Tensor& dgates, const RoutedTokens& tokens, bool normalizes) {
  if (!normalizes) return dgates;
  // g_j = s_j / Σ s, so ds_j = (dg_j − Σ_i dg_i g_i) / Σ s.
  const at::Tensor sum = tokens.probabilities.gather(1, tokens.experts).sum(1, true);
  return (dgates - (dgates * tokens.gates).sum(1, true)) / sum;
}

}  // namespace

Routing route_tokens(const at::Tensor& logits, const RoutingRules& rules, const at::Tensor& given) {
  if (has_cuda_routing(logits, rules.k)) return cuda_route_tokens(logits, rules, given);
  Routing routing;
  RoutedTokens& tokens = routing.tokens;
  tokens.probabilities = at::softmax(logits, 1);
  const TopExperts top = given.defined() ? TopExperts{given, tokens.probabilities.gather(1, given)}
                                         : top_experts(tokens.probabilities, rules.k);
  tokens.experts = top.experts;
  routing.scores = top.scores;
  tokens.gates = rules.normalizes ? top.scores / top.scores.sum(1, true) : top.scores;
  if (rules.keeps_log_sums) tokens.log_sums = at::logsumexp(logits, 1);
  return routing;
}

at::Tensor routing_totals(const Routing& routing, const ExpertRows& map) {
  if (routing.partials.defined()) return cuda_routing_totals(routing.partials, map);
  const auto& [probabilities, chosen, gates, log_sums] = routing.tokens;
  const std::int64_t experts = probabilities.size(1);
  const auto options = probabilities.options().dtype(at::kDouble);
  const at::Tensor z = log_sums.defined() ? log_sums.square().sum(at::kDouble) : at::zeros({}, options);
  return at::cat({chosen_by(chosen.select(1, 0), experts), chosen_by(chosen, experts),
                  probabilities.sum(0, false, at::kDouble), z.view(1), kept_choices(map),
                  at::special_entr(probabilities).sum(at::kDouble).view(1)});
}

RoutingSummary routing_summary(const at::Tensor& totals, std::int64_t experts, std::int64_t tokens, std::int64_t k,
                               std::optional<at::ScalarType> first_type) {
  if (has_cuda_routing_summary(totals, first_type))
    return cuda_routing_summary(totals, experts, tokens, k, first_type.has_value());
  const auto choices = static_cast<double>(tokens * k);
  const double scale = static_cast<double>(experts) / static_cast<double>(tokens * tokens);
  const at::Tensor first = totals.narrow(0, 0, experts), chosen = totals.narrow(0, experts, experts);
  const at::Tensor balance = (first * totals.narrow(0, 2 * experts, experts)).sum().mul_(scale);
  const at::Tensor kept = totals[3 * experts + 1], entropies = totals[3 * experts + 2];
  RoutingSummary summary;
  if (first_type) summary.first = first.to(*first_type);
  summary.sums =
      at::stack({at::ones({}, totals.options()), balance, totals[3 * experts] / static_cast<double>(tokens),
                 1 - kept / choices, chosen.max() / (choices / static_cast<double>(experts)),
                 experts > 1 ? entropies / (static_cast<double>(tokens) * std::log(static_cast<double>(experts)))
                             : at::zeros({}, totals.options())});
  return summary;
}

at::Tensor route_backward(const at::Tensor& dgates, const RoutedTokens& tokens, const RoutingRules& rules,
                          const RoutingTerms& terms) {
  if (has_cuda_routing(tokens.probabilities, rules.k)) return cuda_route_backward(dgates, tokens, rules, terms);
  at::Tensor gradient = at::zeros_like(tokens.probabilities);
  // A token's experts differ, so nothing is written twice.
  gradient.scatter_(1, tokens.experts, score_gradient(dgates, tokens, rules.normalizes));
  // The counts of choices have no gradient.
  if (terms.first.defined()) gradient.add_(terms.first, terms.first_scale);
  at::Tensor dlogits = at::_softmax_backward_data(gradient, tokens.probabilities, 1, gradient.scalar_type());
  if (tokens.log_sums.defined()) {
    // The gradient of the log-sum-exp is the softmax.
    const at::Tensor dlog_sums = tokens.log_sums * terms.log_sum_scale;
    dlogits.addcmul_(dlog_sums.unsqueeze(1), tokens.probabilities);
  }
  return dlogits;
}

}  // namespace llmtrain::kernels
