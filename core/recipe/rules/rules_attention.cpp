// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_latent_attention(const Recipe& recipe, const Known&) {
  const ModelRecipe& model = recipe.model;
  if (!model.latent_attention || model.position == Position::rope) return {};
  return Refusal{"has a part with positions", "needs model.position \"rope\"", "null"};
}

Verdict check_latent_pairs(const Recipe& recipe, const Known&) {
  if (!recipe.model.latent_attention) return {};
  return must_be_multiple(recipe.model.latent_attention->rope_head_dim, 2, "2, as pairs are rotated");
}

Verdict check_latent_head_dim(const Recipe& recipe, const Known&) {
  const ModelRecipe& model = recipe.model;
  if (!model.latent_attention || model.head_dim == model.latent_attention->head_dim()) return {};
  const std::string sum = std::to_string(model.latent_attention->head_dim());
  return Refusal{std::to_string(model.head_dim) + " is another size",
                 "must be nope_head_dim + rope_head_dim (" + sum + ") with model.latent_attention", sum};
}

Verdict check_latent_kv_heads(const Recipe& recipe, const Known&) {
  const ModelRecipe& model = recipe.model;
  if (!model.latent_attention || model.kv_heads == model.heads) return {};
  const std::string heads = std::to_string(model.heads);
  return Refusal{
      std::to_string(model.kv_heads) + " groups heads",
      "must be model.heads (" + heads + ") with model.latent_attention, which makes keys and values for every head",
      heads};
}

Verdict check_latent_qk_norm(const Recipe& recipe, const Known&) {
  if (!recipe.model.latent_attention || !recipe.model.qk_norm) return {};
  return Refusal{"true norms each head",
                 "must be false with model.latent_attention, which norms what heads are made of", "false"};
}

Verdict check_latent_bias(const Recipe& recipe, const Known&) {
  if (!recipe.model.latent_attention || !recipe.model.qkv_bias) return {};
  return Refusal{"true biases queries, keys and values", "must be false with model.latent_attention", "false"};
}

Verdict check_global_layers(const Recipe& recipe, const Known&) {
  const auto& window = recipe.model.sliding_window;
  if (!window || window->global_every <= recipe.model.layers) return {};
  return Refusal{std::to_string(window->global_every) + " leaves no global layer",
                 "must be at most model.layers (" + std::to_string(recipe.model.layers) + "), or 0 for none", "0"};
}

// What tensor ranks add up once are sums over equal parts of both halves' features; experts have whole rows.
Verdict check_parallel_residual(const Recipe& recipe, const Known&) {
  if (recipe.model.parallel_residual == ParallelResidual::none || !recipe.model.moe) return {};
  return Refusal{"reads one input in both halves", "must be \"none\" with model.moe", "\"none\""};
}

Verdict check_post_norms(const Recipe& recipe, const Known&) {
  if (!recipe.model.post_norms || recipe.model.parallel_residual == ParallelResidual::none) return {};
  return Refusal{"true norms each half", "must be false with model.parallel_residual, of which both are added at once",
                 "false"};
}

Verdict check_further_tokens(const Recipe& recipe, const Known&) {
  const ModelRecipe& model = recipe.model;
  if (!model.multi_token_prediction) return {};
  const auto refuse = [](const char* what) {
    return Refusal{"has layers behind the last one", std::string("must be null with ") + what, "null"};
  };
  if (model.lora) return refuse("model.lora, which adapts the model's layers");
  if (model.moe && model.moe->replays()) return refuse("a replayed routing, which is of the model's layers");
  if (recipe.training.token_dropping) return refuse("training.token_dropping, which counts the model's layers");
  return {};
}

}  // namespace

std::vector<Rule> attention_rules() {
  const std::string_view latent = "/model/latent_attention";
  return {
      {latent, {"/model/position", "/model/architecture"}, check_latent_attention},
      {"/model/latent_attention/rope_head_dim", {}, check_latent_pairs},
      {"/model/head_dim", {latent, "/model/heads", "/model/hidden_size"}, check_latent_head_dim},
      {"/model/kv_heads", {latent, "/model/heads"}, check_latent_kv_heads},
      {"/model/qk_norm", {latent, "/model/architecture"}, check_latent_qk_norm},
      {"/model/qkv_bias", {latent, "/model/architecture"}, check_latent_bias},
      {"/model/sliding_window/global_every", {"/model/layers"}, check_global_layers},
      {"/model/parallel_residual", {"/model/moe/experts"}, check_parallel_residual},
      {"/model/post_norms", {"/model/parallel_residual"}, check_post_norms},
      {"/model/multi_token_prediction", {"/model/moe/experts"}, check_further_tokens},
  };
}

}  // namespace llmtrain
