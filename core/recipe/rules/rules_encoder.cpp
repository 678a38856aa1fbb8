// SPDX-License-Identifier: Apache-2.0
// What encoders, encoder-decoders and image classifiers have not: their blocks are bodies (core/body), which are
// computed whole, in a type as wide as activations are.
#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/rules/planned_model.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

bool is_resnet(const Recipe& recipe) { return recipe.model.architecture == Architecture::resnet; }

bool is_of_encoder(const Recipe& recipe) { return has_bodies(recipe.model.architecture); }

// "an encoder's", to which an encoder-decoder's layers are alike but for T5's.
std::string_view kind_of(const Recipe& recipe) {
  if (recipe.model.architecture == Architecture::t5) return "\"t5\"";
  if (is_resnet(recipe)) return "\"resnet\"";
  if (is_image_classifier(recipe.model.architecture)) return "\"vit\"";
  return is_encoder_decoder(recipe.model.architecture) ? "an encoder-decoder's" : "an encoder's";
}

// What must be so in an encoder, an encoder-decoder and an image classifier. Makes no text of what holds.
Verdict of_encoder(const Recipe& recipe, bool holds, std::string_view what, std::string_view rule,
                   std::string_view hint) {
  if (holds || !is_of_encoder(recipe)) return {};
  return Refusal{std::string(what), fmt::format("{} where model.architecture is {}", rule, kind_of(recipe)),
                 std::string(hint)};
}

bool is_t5(const Recipe& recipe) { return recipe.model.architecture == Architecture::t5; }

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
  if (model.head_dim * model.heads == model.hidden_size || is_t5(recipe) || !is_of_encoder(recipe)) return {};
  return of_encoder(recipe, false, fmt::format("{} is another size", model.head_dim),
                    "must be model.hidden_size / model.heads", "");
}

Verdict check_encoder_activation(const Recipe& recipe, const Known&) {
  const Activation activation = recipe.model.activation;
  if (is_t5(recipe))
    return of_encoder(recipe, activation != Activation::squared_relu && activation != Activation::clamped_swiglu,
                      "is another function than its family's",
                      "must be \"relu\", \"gelu\", \"gelu_tanh\", \"geglu\", \"geglu_tanh\" or \"swiglu\"", "\"relu\"");
  if (is_resnet(recipe))
    return of_encoder(recipe, activation == Activation::relu, "is another function than its family's",
                      "must be \"relu\"", "\"relu\"");
  if (is_encoder_decoder(recipe.model.architecture) && activation == Activation::relu) return {};
  return of_encoder(recipe, activation == Activation::gelu || activation == Activation::gelu_tanh,
                    "is another function than its family's", "must be \"gelu\" or \"gelu_tanh\"", "\"gelu\"");
}

// Keys of a decoder's layers, which a body would ignore.
Verdict check_encoder_layers(const Recipe& recipe, const Known&) {
  if (!is_of_encoder(recipe)) return {};
  ModelRecipe model = recipe.model;
  // These have rules of their own.
  model.moe.reset();
  model.lora.reset();
  model.position = Position::learned;
  std::string words;
  const auto add = [&](bool is_wanted, const std::string& more) {
    if (is_wanted) words += (words.empty() ? "" : " and ") + more;
  };
  add(model.sliding_window.has_value(), "/model/sliding_window");
  add(model.attention_scale.has_value(), "/model/attention_scale");
  add(model.attention_sinks, "/model/attention_sinks");
  add(model.parallel_residual != ParallelResidual::none, "/model/parallel_residual");
  add(model.post_norms, "/model/post_norms");
  add(model.embedding_scale != 1, "/model/embedding_scale");
  const std::string planned = planned_model_words(model);
  add(!planned.empty(), planned);
  if (words.empty()) return {};
  return Refusal{fmt::format("is {}", kind_of(recipe)), "must be a decoder's with " + words};
}

Verdict check_encoder_norm(const Recipe& recipe, const Known&) {
  if (is_resnet(recipe))
    return of_encoder(recipe, recipe.model.norm == NormKind::groupnorm, "norms rows of tokens", "must be \"groupnorm\"",
                      "\"groupnorm\"");
  if (recipe.model.norm == NormKind::groupnorm)
    return Refusal{"\"groupnorm\" norms the channels of images", "needs model.architecture \"resnet\"",
                   "\"layernorm\""};
  if (is_t5(recipe))
    return of_encoder(recipe, recipe.model.norm == NormKind::rmsnorm, "\"layernorm\" has a mean", "must be \"rmsnorm\"",
                      "\"rmsnorm\"");
  return of_encoder(recipe, recipe.model.norm == NormKind::layernorm, "\"rmsnorm\" has no mean",
                    "must be \"layernorm\"", "\"layernorm\"");
}

Verdict check_encoder_position(const Recipe& recipe, const Known&) {
  if (is_resnet(recipe))
    return of_encoder(recipe, recipe.model.position == Position::none, "is of rows, of which an image has one",
                      "must be \"none\"", "\"none\"");
  if (is_t5(recipe))
    return of_encoder(recipe, recipe.model.position == Position::relative, "is not a bias of scores",
                      "must be \"relative\"", "\"relative\"");
  if (recipe.model.position == Position::relative)
    return Refusal{"\"relative\" is T5's bias of scores", "needs model.architecture \"t5\"", "\"learned\""};
  return of_encoder(recipe, recipe.model.position == Position::learned, "\"rope\" rotates queries and keys",
                    "must be \"learned\"", "\"learned\"");
}

// All linear layers of T5 have none, and all of the others one.
Verdict has_biases(const Recipe& recipe, bool biases) {
  if (is_t5(recipe)) return of_encoder(recipe, !biases, "true adds biases", "must be false", "false");
  return of_encoder(recipe, biases, "false leaves out biases", "must be true", "true");
}

Verdict check_encoder_bias(const Recipe& recipe, const Known&) { return has_biases(recipe, recipe.model.bias); }

Verdict check_encoder_qkv_bias(const Recipe& recipe, const Known&) { return has_biases(recipe, recipe.model.qkv_bias); }

Verdict check_encoder_output_bias(const Recipe& recipe, const Known&) {
  // Where it follows model.bias, that key is said alone.
  if (recipe.model.attention_output_bias == recipe.model.bias) return {};
  return has_biases(recipe, recipe.model.attention_output_bias);
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
  if (is_t5(recipe) && recipe.kernels.attention == AttentionKernel::flash)
    return Refusal{"\"flash\" adds no bias to scores",
                   "must be \"auto\" or \"math\" where model.architecture is \"t5\"", "\"auto\""};
  return of_encoder(recipe, recipe.kernels.attention != AttentionKernel::cudnn, "\"cudnn\" is a decoder's kernel",
                    "must be \"auto\", \"flash\" or \"math\"", "\"auto\"");
}

Verdict check_encoder_fine_tuning(const Recipe& recipe, const Known&) {
  return of_encoder(recipe, !recipe.data.fine_tuning, "trains on answers", "must be null", "null");
}

Verdict check_bart_head(const Recipe& recipe, const Known&) {
  if (recipe.model.tie_embeddings || recipe.model.architecture != Architecture::bart) return {};
  return Refusal{"false gives the head a matrix of its own, which BART has not",
                 "must be true where model.architecture is \"bart\"", "true"};
}

Verdict check_decoder_layers(const Recipe& recipe, const Known&) {
  const std::int64_t layers = recipe.model.decoder_layers;
  if (is_encoder_decoder(recipe.model.architecture) == (layers > 0)) return {};
  if (layers > 0)
    return Refusal{fmt::format("{} is a decoder's beside an encoder", layers),
                   "must be 0 where model.architecture is not an encoder-decoder's, whose layers are model.layers",
                   "0"};
  return Refusal{"0 leaves no decoder", "must be at least 1 where model.architecture is an encoder-decoder's",
                 std::to_string(recipe.model.layers)};
}

Verdict check_label_smoothing(const Recipe& recipe, const Known&) {
  if (recipe.training.label_smoothing == 0) return {};
  const auto& classifier = recipe.model.classifier;
  if (classifier && classifier->of == ClassifiedPart::span)
    return Refusal{"is above 0, and would have answers begin and end in padding, too",
                   "must be 0 where model.classifier.of is \"span\"", "0"};
  if (is_of_encoder(recipe)) return {};
  return Refusal{"is above 0, and a decoder's head has plain targets",
                 "must be 0 where model.architecture is a decoder's", "0"};
}

}  // namespace

std::vector<Rule> encoder_rules() {
  const std::string_view architecture = "/model/architecture";
  return {
      {architecture,
       {"/model/latent_attention", "/model/sliding_window", "/model/attention_scale", "/model/attention_sinks",
        "/model/attention_gate", "/model/rotary_dim", "/model/linear_attention", "/model/layer_kinds",
        "/model/parallel_residual", "/model/post_norms", "/model/embedding_scale", "/model/multi_token_prediction"},
       check_encoder_layers},
      {"/model/kv_heads", {architecture, "/model/heads"}, check_encoder_kv_heads},
      {"/model/head_dim", {architecture, "/model/heads", "/model/hidden_size"}, check_encoder_head_dim},
      {"/model/decoder_layers", {architecture, "/model/layers"}, check_decoder_layers},
      {"/model/tie_embeddings", {architecture}, check_bart_head},
      {"/training/label_smoothing", {architecture, "/model/classifier/of"}, check_label_smoothing},
      {"/model/activation", {architecture}, check_encoder_activation},
      {"/model/norm", {architecture}, check_encoder_norm},
      {"/model/position", {architecture}, check_encoder_position},
      {"/model/bias", {architecture}, check_encoder_bias},
      {"/model/qkv_bias", {architecture}, check_encoder_qkv_bias},
      {"/model/attention_output_bias", {architecture, "/model/bias"}, check_encoder_output_bias},
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
