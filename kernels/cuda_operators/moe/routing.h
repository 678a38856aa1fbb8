// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/moe/routing.h"

namespace llmtrain::kernels {

// What a router's logits decide (kernels/moe/routing.h) on a GPU with the kernels of
// kernels/cuda/moe/routing_kernels.h: one each.

// Whether they take the logits or probabilities [T, E], with k choices each: fp32 without gaps.
bool has_cuda_routing(const at::Tensor& logits, std::int64_t k);

Routing cuda_route_tokens(const at::Tensor& logits, const RoutingRules& rules, const at::Tensor& given);
// The map must have ends.
at::Tensor cuda_routing_totals(const at::Tensor& partials, const ExpertRows& map);

bool has_cuda_routing_summary(const at::Tensor& totals, std::optional<at::ScalarType> first);
RoutingSummary cuda_routing_summary(const at::Tensor& totals, std::int64_t experts, std::int64_t tokens, std::int64_t k,
                                    bool keeps_first);

at::Tensor cuda_route_backward(const at::Tensor& dgates, const RoutedTokens& tokens, const RoutingRules& rules,
                               const RoutingTerms& terms);

}  // namespace llmtrain::kernels
