// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

// Whether the model has layers of such a kind.
template <class Predicate>
bool has_layers(const ModelRecipe& model, Predicate is_wanted) {
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    if (is_wanted(model.kind_of(layer), layer)) return true;
  return false;
}

bool has_linear_layers(const ModelRecipe& model) {
  return has_layers(model, [](const LayerKind& kind, std::int64_t) { return kind.is_linear; });
}

Verdict check_layer_kinds(const Recipe& recipe, const Known&) {
  const ModelRecipe& model = recipe.model;
  for (const std::string& word : model.layer_kinds)
    if (std::ranges::find(layer_kind_words, word) == layer_kind_words.end())
      return Refusal{"\"" + word + "\" is no kind of layer", "must be of " + choice_words(layer_kind_words), ""};
  if (static_cast<std::int64_t>(model.layer_kinds.size()) > model.layers)
    return Refusal{"names " + std::to_string(model.layer_kinds.size()) + " layers",
                   "must name at most model.layers (" + std::to_string(model.layers) + ")", ""};
  if (!has_linear_layers(model) || model.linear_attention) return {};
  return Refusal{"has linear layers", "needs model.linear_attention, which says their sizes", ""};
}

Verdict check_linear_attention(const Recipe& recipe, const Known&) {
  if (!recipe.model.linear_attention || has_linear_layers(recipe.model)) return {};
  return Refusal{"has no layer", "needs \"linear\" or \"linear_alone\" in model.layer_kinds", "null"};
}

Verdict check_value_heads(const Recipe& recipe, const Known&) {
  const auto& linear = recipe.model.linear_attention;
  if (!linear) return {};
  return must_be_multiple(linear->value_heads, linear->key_heads, "key_heads, as each key head serves equally many");
}

Verdict check_layers_with_experts(const Recipe& recipe, const Known&) {
  const ModelRecipe& model = recipe.model;
  if (!model.moe || model.layer_kinds.empty()) return {};
  const auto has_experts = [&](const LayerKind& kind, std::int64_t layer) {
    return kind.has_feed_forward && model.moe->are_in(layer);
  };
  if (has_layers(model, has_experts)) return {};
  return Refusal{"leaves no layer with experts", "must have feed-forward networks in layers that model.moe says", ""};
}

Verdict check_halves(const Recipe& recipe, const Known&) {
  const ModelRecipe& model = recipe.model;
  const auto is_alone = [](const LayerKind& kind, std::int64_t) { return !kind.has_mixer || !kind.has_feed_forward; };
  if (model.parallel_residual == ParallelResidual::none || !has_layers(model, is_alone)) return {};
  return Refusal{"reads one input in both halves", "must be \"none\" where layers have one half alone", "\"none\""};
}

Verdict check_attention_gate(const Recipe& recipe, const Known&) {
  if (!recipe.model.attention_gate || !recipe.model.latent_attention) return {};
  return Refusal{"true gates heads of the usual attention", "must be false with model.latent_attention", "false"};
}

Verdict check_rotary_dim(const Recipe& recipe, const Known&) {
  const ModelRecipe& model = recipe.model;
  if (!model.rotary_dim) return {};
  const std::string dim = std::to_string(*model.rotary_dim);
  if (model.position != Position::rope)
    return Refusal{dim + " rotates nothing", "needs model.position \"rope\"", "\"auto\""};
  if (model.latent_attention)
    return Refusal{dim + " is a part of each head", "must be \"auto\" with model.latent_attention, which has its own",
                   "\"auto\""};
  if (*model.rotary_dim > model.head_dim)
    return Refusal{dim + " is more than a head has",
                   "must be at most model.head_dim (" + std::to_string(model.head_dim) + ")", "\"auto\""};
  return must_be_multiple(*model.rotary_dim, 2, "2, as pairs are rotated");
}

// Tensor ranks split the heads of keys, with the values that belong to each.
Verdict check_linear_tensor_ranks(const Recipe& recipe, const Known&) {
  const auto& linear = recipe.model.linear_attention;
  if (!linear) return {};
  return must_divide(recipe.parallel.tensor, linear->key_heads, "model.linear_attention.key_heads");
}

// A state passes from each token to the next.
Verdict check_linear_context_ranks(const Recipe& recipe, const Known&) {
  if (!recipe.model.linear_attention || recipe.parallel.context == 1) return {};
  return Refusal{std::to_string(recipe.parallel.context) + " ranks split sequences",
                 "must be 1 with model.linear_attention, whose states follow whole sequences", "1"};
}

}  // namespace

std::vector<Rule> hybrid_rules() {
  const std::string_view kinds = "/model/layer_kinds", linear = "/model/linear_attention";
  return {
      {kinds, {"/model/layers", linear}, check_layer_kinds},
      {linear, {kinds, "/model/layers"}, check_linear_attention},
      {"/model/linear_attention/value_heads", {"/model/linear_attention/key_heads"}, check_value_heads},
      {kinds,
       {"/model/layers", "/model/moe/experts", "/model/moe/every", "/model/moe/dense_layers"},
       check_layers_with_experts},
      {"/model/parallel_residual", {kinds, "/model/layers"}, check_halves},
      {"/model/attention_gate", {"/model/latent_attention"}, check_attention_gate},
      {"/model/rotary_dim",
       {"/model/head_dim", "/model/heads", "/model/hidden_size", "/model/position", "/model/architecture",
        "/model/latent_attention"},
       check_rotary_dim},
      {"/parallel/tensor", {"/model/linear_attention/key_heads"}, check_linear_tensor_ranks},
      {"/parallel/context", {linear}, check_linear_context_ranks},
  };
}

}  // namespace llmtrain
