// SPDX-License-Identifier: Apache-2.0
// What encoders have not: their blocks are bodies (core/body), which are computed whole, in a type as wide as
// activations are.
#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/rules/planned_model.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

bool is_of_encoder(const Recipe& recipe) { return is_encoder(recipe.model.architecture); }

// What must be so in an encoder. Makes no text of what holds.
Verdict of_encoder(const Recipe& recipe, bool holds, std::string_view what, std::string_view rule,
                   std::string_view hint) {
  if (holds || !is_of_encoder(recipe)) return {};
  return Refusal{std::string(what), fmt::format("{} where model.architecture is an encoder's", rule),
                 std::string(hint)};
}

Verdict number_of_encoder(const Recipe& recipe, std::int64_t number, std::int64_t needed, std::string_view what,
                          std::string_view rule) {
  if (number == needed || !is_of_encoder(recipe)) return {};
  return of_encoder(recipe, false, fmt::format("{} {}", number, what), rule, std::to_string(needed));
}

Verdict check_encoder_kv_heads(const Recipe& recipe, const Known&) {
  const ModelRecipe& model = recipe.model;
  return number_of_encoder(recipe, model.kv_heads, model.heads, "groups heads", "must be model.heads");
}

Verdict check_encoder_head_dim(const Recipe& recipe, const Known&) {
  const ModelRecipe& model = recipe.model;
  if (model.head_dim * model.heads == model.hidden_size || !is_of_encoder(recipe)) return {};
  return of_encoder(recipe, false, fmt::format("{} is another size", model.head_dim),
                    "must be model.hidden_size / model.heads", "");
}

Verdict check_encoder_activation(const Recipe& recipe, const Known&) {
  const Activation activation = recipe.model.activation;
  return of_encoder(recipe, activation == Activation::gelu || activation == Activation::gelu_tanh,
                    "is another function than its family's", "must be \"gelu\" or \"gelu_tanh\"", "\"gelu\"");
}

// Keys of a decoder's layers, which a body would ignore. Experts have a rule of their own.
Verdict check_encoder_layers(const Recipe& recipe, const Known&) {
  if (!is_of_encoder(recipe)) return {};
  ModelRecipe model = recipe.model;
  model.moe.reset();
  std::string words;
  const auto add = [&](bool is_wanted, const std::string& more) {
    if (is_wanted) words += (words.empty() ? "" : " and ") + more;
  };
  add(model.sliding_window.has_value(), "/model/sliding_window");
  add(model.attention_scale.has_value(), "/model/attention_scale");
  add(model.attention_sinks, "/model/attention_sinks");
  const std::string planned = planned_model_words(model);
  add(!planned.empty(), planned);
  if (words.empty()) return {};
  return Refusal{"is an encoder's", "must be a decoder's with " + words};
}

Verdict check_encoder_norm(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, recipe.model.norm == NormKind::layernorm, "\"rmsnorm\" has no mean",
                    "must be \"layernorm\"", "\"layernorm\"");
}

Verdict check_encoder_position(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, recipe.model.position == Position::learned, "\"rope\" rotates queries and keys",
                    "must be \"learned\"", "\"learned\"");
}

Verdict check_encoder_bias(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, recipe.model.bias, "false leaves out biases", "must be true", "true");
}

Verdict check_encoder_qkv_bias(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, recipe.model.qkv_bias, "false leaves out biases", "must be true", "true");
}

Verdict check_encoder_qk_norm(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, !recipe.model.qk_norm, "true norms each head", "must be false", "false");
}

Verdict check_encoder_moe(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, !recipe.model.moe, "has experts", "must be left out with model.moe", "");
}

Verdict check_encoder_lora(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, !recipe.model.lora, "adapts matrices", "must be null", "null");
}

Verdict check_encoder_freeze(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, recipe.training.freeze.empty(), "freezes parameters", "must be []", "[]");
}

Verdict check_encoder_token_dropping(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, !recipe.training.token_dropping, "drops tokens within layers", "must be null", "null");
}

Verdict check_encoder_tensor(const Recipe& recipe, const Known&) {
  return number_of_encoder(recipe, recipe.parallel.tensor, 1, "splits layers", "must be 1");
}

Verdict check_encoder_context(const Recipe& recipe, const Known&) {
  return number_of_encoder(recipe, recipe.parallel.context, 1, "splits sequences", "must be 1");
}

Verdict check_encoder_compute(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, recipe.precision.compute != DataType::fp16, "\"fp16\" is narrow",
                    "must be \"fp32\" or \"bf16\"", "\"bf16\"");
}

Verdict check_encoder_fp8(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, recipe.precision.fp8_level == Fp8Level::off, "multiplies in FP8", "must be \"off\"",
                    "\"off\"");
}

Verdict check_encoder_cuda_graphs(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, !recipe.kernels.cuda_graphs, "true, but the shapes of a body's tensors are the batch's",
                    "must be false", "false");
}

Verdict check_encoder_attention(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, recipe.kernels.attention != AttentionKernel::cudnn, "\"cudnn\" is a decoder's kernel",
                    "must be \"auto\", \"flash\" or \"math\"", "\"auto\"");
}

Verdict check_encoder_fine_tuning(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, !recipe.data.fine_tuning, "trains on answers", "must be null", "null");
}

}  // namespace

std::vector<Rule> encoder_rules() {
  const std::string_view architecture = "/model/architecture";
  return {
      {architecture,
       {"/model/latent_attention", "/model/sliding_window", "/model/attention_scale", "/model/attention_sinks",
        "/model/parallel_residual", "/model/post_norms", "/model/embedding_scale", "/model/multi_token_prediction"},
       check_encoder_layers},
      {"/model/kv_heads", {architecture, "/model/heads"}, check_encoder_kv_heads},
      {"/model/head_dim", {architecture, "/model/heads", "/model/hidden_size"}, check_encoder_head_dim},
      {"/model/activation", {architecture}, check_encoder_activation},
      {"/model/norm", {architecture}, check_encoder_norm},
      {"/model/position", {architecture}, check_encoder_position},
      {"/model/bias", {architecture}, check_encoder_bias},
      {"/model/qkv_bias", {architecture}, check_encoder_qkv_bias},
      {"/model/qk_norm", {architecture}, check_encoder_qk_norm},
      {"/model/moe/experts", {architecture}, check_encoder_moe},
      {"/model/lora", {architecture}, check_encoder_lora},
      {"/training/freeze", {architecture}, check_encoder_freeze},
      {"/training/token_dropping", {architecture}, check_encoder_token_dropping},
      {"/parallel/tensor", {architecture}, check_encoder_tensor},
      {"/parallel/context", {architecture}, check_encoder_context},
      {"/precision/compute", {architecture}, check_encoder_compute},
      {"/precision/fp8_level", {architecture}, check_encoder_fp8},
      {"/kernels/cuda_graphs", {architecture}, check_encoder_cuda_graphs},
      {"/kernels/attention", {architecture}, check_encoder_attention},
      {"/data/fine_tuning", {architecture}, check_encoder_fine_tuning},
  };
}

}  // namespace llmtrain
