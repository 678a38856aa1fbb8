// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/json/document.h"
#include "core/recipe/recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// What records of experts have of each token: `top_k` of the experts for each layer with some, in the model's order.
struct RoutedLayers {
  std::int64_t layers = 0, experts = 0, top_k = 0;

  std::int64_t numbers() const { return layers * top_k; }
  bool operator==(const RoutedLayers&) const = default;
};

// What records of the recipe's model have, where it replays the routing that its rows tell; else none.
std::optional<RoutedLayers> replayed_layers(const Recipe& recipe);

// A text that a model has written, as token ids.
struct RolloutRow {
  std::vector<TokenId> prompt, answer;  // at least one id each
  // RoutedLayers::numbers() for each token but the last; empty: routers choose.
  std::vector<std::int32_t> experts;
};

// Whether a row is one: whether it has "prompt_token_ids" and "token_ids".
bool is_rollout(const Json& row);

// The model that such rows are of.
struct RolloutModel {
  std::int64_t vocab_size = 0;
  std::optional<RoutedLayers> routed{};  // none: "routed_experts" are not read
};

// Throws ConversationRefused for ids and experts that the model does not have.
RolloutRow rollout_of(const Json& row, const RolloutModel& model);

}  // namespace llmtrain
