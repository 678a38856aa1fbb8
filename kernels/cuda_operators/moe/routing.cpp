// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/moe/routing.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {
namespace {

const float* floats_or_null(const at::Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }

}  // namespace

bool has_cuda_routing(const at::Tensor& logits, std::int64_t k) {
  return has_kernels(logits) && logits.scalar_type() == at::kFloat && logits.is_contiguous() &&
         logits.size(1) <= most_routed_experts && k <= most_choices;
}

Routing cuda_route_tokens(const at::Tensor& logits, const RoutingRules& rules, const at::Tensor& given) {
  const c10::DeviceGuard guard(logits.device());
  const std::int64_t tokens = logits.size(0), experts = logits.size(1);
  const auto fp32 = [&](at::IntArrayRef shape) { return at::empty(shape, logits.options()); };
  Routing routing;
  RoutedTokens& kept = routing.tokens;
  kept.probabilities = at::empty_like(logits);
  kept.experts = given.defined() ? given.contiguous() : at::empty({tokens, rules.k}, logits.options().dtype(at::kLong));
  routing.scores = fp32({tokens, rules.k});
  kept.gates = rules.normalizes ? fp32({tokens, rules.k}) : routing.scores;
  if (rules.keeps_log_sums) kept.log_sums = fp32({tokens});
  routing.partials = at::empty({token_pieces(tokens), routing_columns(static_cast<int>(experts))},
                               logits.options().dtype(at::kDouble));
  kernel_table()->routing->route({.logits = logits.const_data_ptr<float>(),
                                  .tokens = tokens,
                                  .experts = static_cast<int>(experts),
                                  .choices = static_cast<int>(rules.k),
                                  .is_chosen = given.defined(),
                                  .probabilities = kept.probabilities.mutable_data_ptr<float>(),
                                  .chosen = kept.experts.mutable_data_ptr<std::int64_t>(),
                                  .scores = routing.scores.mutable_data_ptr<float>(),
                                  .gates = rules.normalizes ? kept.gates.mutable_data_ptr<float>() : nullptr,
                                  .log_sums = rules.keeps_log_sums ? kept.log_sums.mutable_data_ptr<float>() : nullptr,
                                  .partials = routing.partials.mutable_data_ptr<double>()},
                                 stream_of(logits));
  return routing;
}

at::Tensor cuda_routing_totals(const at::Tensor& partials, const ExpertRows& map) {
  const c10::DeviceGuard guard(partials.device());
  at::Tensor totals = at::empty({partials.size(1) + 1}, partials.options());
  kernel_table()->routing->totals({.partials = partials.const_data_ptr<double>(),
                                   .pieces = partials.size(0),
                                   .experts = static_cast<int>(map.experts()),
                                   .ends = map.ends.const_data_ptr<int>(),
                                   .totals = totals.mutable_data_ptr<double>()},
                                  stream_of(partials));
  return totals;
}

bool has_cuda_routing_summary(const at::Tensor& totals, std::optional<at::ScalarType> first) {
  return totals.is_cuda() && has_kernel_table() && totals.is_contiguous() && first.value_or(at::kFloat) == at::kFloat;
}

RoutingSummary cuda_routing_summary(const at::Tensor& totals, std::int64_t experts, std::int64_t tokens, std::int64_t k,
                                    bool keeps_first) {
  const c10::DeviceGuard guard(totals.device());
  RoutingSummary summary{.sums = at::empty({6}, totals.options()), .first = {}};
  if (keeps_first) summary.first = at::empty({experts}, totals.options().dtype(at::kFloat));
  kernel_table()->routing->summary({.totals = totals.const_data_ptr<double>(),
                                    .experts = static_cast<int>(experts),
                                    .tokens = static_cast<double>(tokens),
                                    .choices = static_cast<double>(tokens * k),
                                    .sums = summary.sums.mutable_data_ptr<double>(),
                                    .first = keeps_first ? summary.first.mutable_data_ptr<float>() : nullptr},
                                   stream_of(totals));
  return summary;
}

at::Tensor cuda_route_backward(const at::Tensor& dgates, const RoutedTokens& tokens, const RoutingRules& rules,
                               const RoutingTerms& terms) {
  const c10::DeviceGuard guard(dgates.device());
  const at::Tensor given = dgates.contiguous();
  at::Tensor dlogits = at::empty_like(tokens.probabilities);
  kernel_table()->routing->route_backward({.dgates = given.const_data_ptr<float>(),
                                           .probabilities = tokens.probabilities.const_data_ptr<float>(),
                                           .chosen = tokens.experts.const_data_ptr<std::int64_t>(),
                                           .gates = rules.normalizes ? tokens.gates.const_data_ptr<float>() : nullptr,
                                           .log_sums = floats_or_null(tokens.log_sums),
                                           .first = floats_or_null(terms.first),
                                           .log_sum_scale = static_cast<float>(terms.log_sum_scale),
                                           .first_scale = static_cast<float>(terms.first_scale),
                                           .dlogits = dlogits.mutable_data_ptr<float>(),
                                           .tokens = dgates.size(0),
                                           .experts = static_cast<int>(tokens.probabilities.size(1)),
                                           .choices = static_cast<int>(rules.k)},
                                          stream_of(dgates));
  return dlogits;
}

}  // namespace llmtrain::kernels
