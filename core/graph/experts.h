// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Width of the space in which the cosine router compares a token with the experts (Chi et al., arXiv 2204.09179).
constexpr std::int64_t cosine_router_width = 256;

// Whether transformer layer `layer` (from 0) has a mixture of experts: the last of every `model.moe.every` layers.
bool has_experts(const ModelRecipe& model, std::int64_t layer);

// Capacity of each expert for the `tokens` that one rank routes (Hwang et al., arXiv 2206.03382): with a
// capacity_factor f above 0 top_k·⌊f·⌈tokens / experts⌉⌋; without dropping the even share top_k·⌈tokens / experts⌉,
// which suffices for even routing.
std::int64_t expert_capacity(const MixtureOfExpertsRecipe& moe, std::int64_t tokens);

// Shares of top_k that experts compute per token under even routing: `kept` are tokens, `padding` are empty slots.
struct ExpertLoad {
  double kept = 0;
  double padding = 0;
};
ExpertLoad expert_load(const MixtureOfExpertsRecipe& moe);

}  // namespace llmtrain
