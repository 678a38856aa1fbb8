// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/rollout_row.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "core/data/conversations/conversation_refused.h"

namespace llmtrain {
namespace {

constexpr const char *prompt_key = "prompt_token_ids", *answer_key = "token_ids", *experts_key = "routed_experts";

// A whole number from 0, below `end`; −1: it is none.
std::int64_t number_below(const Json& value, std::int64_t end) {
  if (!value.is_number_unsigned()) return -1;
  const auto number = value.get<std::uint64_t>();
  return number < static_cast<std::uint64_t>(end) ? static_cast<std::int64_t>(number) : -1;
}

std::vector<TokenId> ids_at(const Json& row, const char* key, std::int64_t vocab_size) {
  const Json& list = row.at(key);
  if (!list.is_array() || list.empty())
    throw ConversationRefused(fmt::format("has no list of at least one token id as \"{}\"", key));
  std::vector<TokenId> ids;
  for (const Json& value : list) {
    const std::int64_t id = number_below(value, vocab_size);
    if (id < 0)
      throw ConversationRefused(
          fmt::format("has something else in \"{}\" than ids below model.vocab_size ({})", key, vocab_size));
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

// `where` names the list in messages.
const Json& list_of(const Json& value, std::int64_t size, const std::string& where, const char* of_what) {
  if (value.is_array() && std::ssize(value) == size) return value;
  throw ConversationRefused(fmt::format("has no list of {} as {}: {}", size, where, of_what));
}

// The experts of a token in a layer.
void add_experts(const Json& value, const RoutedLayers& routed, const std::string& where,
                 std::vector<std::int32_t>& experts) {
  const auto first = experts.size();
  for (const Json& one : list_of(value, routed.top_k, where, "the experts that it goes to (model.moe.top_k)")) {
    const auto expert = static_cast<std::int32_t>(number_below(one, routed.experts));
    const auto others = experts.begin() + static_cast<std::ptrdiff_t>(first);
    if (expert < 0 || std::find(others, experts.end(), expert) != experts.end())
      throw ConversationRefused(fmt::format(
          "has something else in {} than different experts below model.moe.experts ({})", where, routed.experts));
    experts.push_back(expert);
  }
}

}  // namespace

std::optional<RoutedLayers> replayed_layers(const Recipe& recipe) {
  const ModelRecipe& model = recipe.model;
  if (!recipe.data.fine_tuning || !recipe.data.fine_tuning->routing_replay || !model.moe) return std::nullopt;
  RoutedLayers routed{0, model.moe->experts, model.moe->top_k};
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    if (model.moe->are_in(layer) && model.kind_of(layer).has_feed_forward) ++routed.layers;
  return routed;
}

bool is_rollout(const Json& row) { return row.contains(prompt_key) && row.contains(answer_key); }

RolloutRow rollout_of(const Json& row, const RolloutModel& model) {
  RolloutRow rollout{ids_at(row, prompt_key, model.vocab_size), ids_at(row, answer_key, model.vocab_size), {}};
  const std::optional<RoutedLayers>& routed = model.routed;
  if (!routed || !row.contains(experts_key) || row.at(experts_key).is_null()) return rollout;
  const std::int64_t tokens = std::ssize(rollout.prompt) + std::ssize(rollout.answer) - 1;
  const std::string name = fmt::format("\"{}\"", experts_key);
  rollout.experts.reserve(static_cast<std::size_t>(tokens * routed->numbers()));
  std::size_t token = 0;
  for (const Json& of_token : list_of(row.at(experts_key), tokens, name, "one for each token but the last")) {
    const std::string of = fmt::format("{}[{}]", name, token++);
    std::size_t layer = 0;
    for (const Json& of_layer : list_of(of_token, routed->layers, of, "one for each layer with experts"))
      add_experts(of_layer, *routed, fmt::format("{}[{}]", of, layer++), rollout.experts);
  }
  return rollout;
}

}  // namespace llmtrain
