// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/pipeline_order.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

// `what` follows the value; `limit` is the value of `key`.
Verdict must_be_at_most(std::int64_t value, std::int64_t limit, std::string_view what, std::string_view key) {
  if (value <= limit) return {};
  return Refusal{fmt::format("{} {}", value, what), fmt::format("must be at most {} ({})", key, limit),
                 std::to_string(limit)};
}

Verdict check_grouped_queries(const Recipe& recipe, const Known&) {
  // Every key and value head serves equally many query heads.
  return must_divide(recipe.model.kv_heads, recipe.model.heads, "model.heads");
}

Verdict check_hidden_size(const Recipe& recipe, const Known& known) {
  if (recipe.model.latent_attention) return {};
  // hidden_size / heads is only head_dim's default: a recipe that gives head_dim need not be divisible.
  if (known.document == nullptr || known.document->holds("/model/head_dim")) return {};
  return must_be_multiple(recipe.model.hidden_size, recipe.model.heads, "model.heads, or give model.head_dim");
}

Verdict check_head_dim(const Recipe& recipe, const Known&) {
  // Rotary positions rotate pairs of elements; those of latent attention have a width of their own.
  if (recipe.model.position != Position::rope || recipe.model.latent_attention) return {};
  return must_be_multiple(recipe.model.head_dim, 2, "2 where model.position is rope");
}

Verdict check_adapters(const Recipe& recipe, const Known&) {
  if (!recipe.training.adapters_from) return {};
  if (!recipe.model.lora)
    return Refusal{"names a folder, but model.lora is null", "must be null in a model without adapters", "null"};
  if (!recipe.model.lora->dora || recipe.training.init_from) return {};
  return Refusal{"names a folder of DoRA, whose magnitudes are lengths of the rows of the model that it was made for",
                 "needs that model in training.init_from or model.from", ""};
}

Verdict check_rope_scaling(const Recipe& recipe, const Known&) {
  if (!recipe.model.rope_scaling || recipe.model.position == Position::rope) return {};
  return Refusal{"scales no positions", "needs model.position \"rope\"", "null"};
}

Verdict check_frequency_factors(const Recipe& recipe, const Known&) {
  const auto& scaling = recipe.model.rope_scaling;
  if (!scaling || scaling->type != RopeScalingType::llama3) return {};
  if (scaling->high_frequency_factor > scaling->low_frequency_factor) return {};
  return Refusal{
      number_words(scaling->high_frequency_factor) + " is too low",
      "must be above model.rope_scaling.low_frequency_factor (" + number_words(scaling->low_frequency_factor) + ")"};
}

Verdict check_top_k(const Recipe& recipe, const Known&) {
  if (!recipe.model.moe) return {};
  return must_be_at_most(recipe.model.moe->top_k, recipe.model.moe->experts, "is too large", "model.moe.experts");
}

Verdict check_expert_layers(const Recipe& recipe, const Known&) {
  if (!recipe.model.moe) return {};
  return must_be_at_most(recipe.model.moe->every, recipe.model.layers, "leaves no layer with experts", "model.layers");
}

Verdict check_dense_layers(const Recipe& recipe, const Known&) {
  const auto& moe = recipe.model.moe;
  if (!moe) return {};
  const std::int64_t last = recipe.model.layers / moe->every * moe->every;
  if (moe->dense_layers < last) return {};
  return Refusal{
      fmt::format("{} leaves no layer with experts", moe->dense_layers),
      fmt::format("must be below the last layer with experts ({}, of model.layers and model.moe.every)", last),
      std::to_string(last - 1)};
}

Verdict check_groups(const Recipe& recipe, const Known&) {
  if (!recipe.model.moe) return {};
  return must_divide(recipe.model.moe->groups, recipe.model.moe->experts, "model.moe.experts");
}

Verdict check_top_groups(const Recipe& recipe, const Known&) {
  const auto& moe = recipe.model.moe;
  if (!moe) return {};
  if (moe->top_groups > moe->groups)
    return must_be_at_most(moe->top_groups, moe->groups, "is too large", "model.moe.groups");
  if (moe->top_groups * (moe->experts / moe->groups) >= moe->top_k) return {};
  return Refusal{
      fmt::format("{} of {} groups have fewer experts than a token is sent to", moe->top_groups, moe->groups),
      fmt::format("must hold model.moe.top_k ({})", moe->top_k), std::to_string(moe->groups)};
}

Verdict check_router_bias(const Recipe& recipe, const Known&) {
  const auto& moe = recipe.model.moe;
  if (!moe || !moe->router_bias || moe->router == Router::linear) return {};
  return Refusal{"true biases no cosine", "needs model.moe.router \"linear\"", "false"};
}

Verdict check_score_function(const Recipe& recipe, const Known&) {
  const auto& moe = recipe.model.moe;
  if (!moe || moe->score_function == ScoreFunction::softmax || moe->balance_loss != BalanceLoss::load_importance)
    return {};
  return Refusal{"\"sigmoid\" has no load-importance loss", "needs another model.moe.balance_loss", "\"softmax\""};
}

Verdict check_shared_gate(const Recipe& recipe, const Known&) {
  if (!recipe.model.moe || !recipe.model.moe->shared_gate || recipe.model.moe->shared_experts > 0) return {};
  return Refusal{"true has no output to gate", "needs model.moe.shared_experts of at least 1", "false"};
}

Verdict check_gate_noise(const Recipe& recipe, const Known&) {
  const auto& moe = recipe.model.moe;
  if (!moe || moe->balance_loss != BalanceLoss::load_importance || moe->gate_noise > 0) return {};
  return Refusal{"0 gives \"load_importance\" no probability of a choice", "must be above 0 with this balance loss",
                 "1"};
}

Verdict check_routing(const Recipe& recipe, const Known&) {
  const auto& moe = recipe.model.moe;
  if (!moe || !moe->routing_trace || !moe->routing_zipf) return {};
  return Refusal{"is a second source of the routing", "must be null where model.moe.routing_zipf is given", "null"};
}

// Only layers with experts have a routing to write.
Verdict check_routing_log(const Recipe& recipe, const Known&) {
  if (!recipe.log.routing || recipe.model.moe) return {};
  return Refusal{"true has no routing to write", "needs model.moe", "false"};
}

Verdict check_sequence_length(const Recipe& recipe, const Known&) {
  return must_be_at_most(recipe.batch.sequence_length, recipe.model.max_sequence_length, "is too long",
                         "model.max_sequence_length");
}

// Token files need no tokenizer, so a model with fewer ids than bytes may read them.
Verdict check_vocabulary(const Recipe& recipe, const Known&) {
  const auto& data = recipe.data;
  if (is_image_classifier(recipe.model.architecture)) return {};
  const auto is_text = [](const DataSource& source) { return !source.path.ends_with(".bin"); };
  const bool reads_text = std::ranges::any_of(data.train, is_text) || std::ranges::any_of(data.validation, is_text);
  if (recipe.model.vocab_size >= 256 || data.tokenizer.kind != TokenizerKind::bytes || !reads_text) return {};
  return Refusal{std::to_string(recipe.model.vocab_size) + " is too small",
                 "data.tokenizer \"bytes\" needs at least 256", "256"};
}

Verdict check_minimum(const Recipe& recipe, const Known&) {
  const auto& rate = recipe.training.learning_rate;
  if (rate.minimum <= rate.peak) return {};
  const auto peak = number_words(rate.peak);
  return Refusal{number_words(rate.minimum) + " is above the peak",
                 "must be at most training.learning_rate.peak (" + peak + ")", peak};
}

Verdict check_decay(const Recipe& recipe, const Known&) {
  const auto& rate = recipe.training.learning_rate;
  // A run that ends within its warm-up decays nowhere; recipe_warnings() says so.
  const bool ends_before = rate.warmup_steps > recipe.training.steps || recipe.training.counts_steps();
  if (ends_before || rate.decay_steps >= rate.warmup_steps) return {};
  const auto warmup = std::to_string(rate.warmup_steps);
  return Refusal{std::to_string(rate.decay_steps) + " is within the warm-up",
                 "must be at least training.learning_rate.warmup_steps (" + warmup + ")", warmup};
}

Verdict check_decay_length(const Recipe& recipe, const Known&) {
  const auto& rate = recipe.training.learning_rate;
  const auto most = rate.decay_steps - rate.warmup_steps;
  if (rate.schedule != LearningRateSchedule::wsd || !rate.decay_length || most < 1 || *rate.decay_length <= most)
    return {};
  return Refusal{std::to_string(*rate.decay_length) + " steps of decay begin within the warm-up",
                 "must be at most training.learning_rate.decay_steps - warmup_steps (" + std::to_string(most) + ")",
                 std::to_string(most)};
}

Verdict check_evaluation(const Recipe& recipe, const Known&) {
  const auto every = recipe.training.evaluate_every;
  // Without training data the recipe is only planned.
  if (every == 0 || recipe.data.train.empty() || !recipe.data.validation.empty()) return {};
  return Refusal{std::to_string(every) + " has nothing to evaluate", "needs data.validation; 0 disables evaluation",
                 "0"};
}

// What cuDNN's attention lacks of what the recipe asks for. LibTorch offers it documents as an experiment, which needs
// one of more than 128 tokens in each call and one of few GPUs.
Verdict check_cudnn(const Recipe& recipe) {
  constexpr std::int64_t longest_head = 128;
  const auto refusal = [](std::string what, std::string rule) {
    return Refusal{std::move(what), std::move(rule), "\"auto\""};
  };
  if (recipe.cluster.device == DeviceKind::cpu)
    return refusal("\"cudnn\" runs on GPUs alone", "needs cluster.device \"cuda\" or \"auto\"");
  if (recipe.model.dropout > 0) return refusal("\"cudnn\" is used without dropout", "needs model.dropout 0");
  if (recipe.precision.compute == DataType::fp32)
    return refusal("\"cudnn\" has no fp32", "needs precision.compute \"bf16\" or \"fp16\"");
  if (recipe.model.head_dim > longest_head)
    return refusal("\"cudnn\" has no heads of " + std::to_string(recipe.model.head_dim) + " elements",
                   "needs a model.head_dim of at most " + std::to_string(longest_head));
  if (has_documents(recipe.data))
    return refusal("\"cudnn\" attends to whole sequences, not to documents within them",
                   "needs data without document_mask, fine_tuning, labels, pairs and masking of single texts");
  if (recipe.parallel.context > 1)
    return refusal("\"cudnn\" attends to whole sequences, of which each context rank has a part",
                   "needs parallel.context 1");
  return {};
}

Verdict check_attention(const Recipe& recipe, const Known&) {
  if (recipe.kernels.attention == AttentionKernel::cudnn) return check_cudnn(recipe);
  if (recipe.kernels.attention != AttentionKernel::flash || recipe.model.dropout == 0) return {};
  if (is_encoder_decoder(recipe.model.architecture)) return {};  // whose attention has none
  return Refusal{"\"flash\" has no dropout",
                 "with model.dropout " + number_words(recipe.model.dropout) + " attention uses the math path",
                 "\"auto\""};
}

// Bounds on products of keys, far above any model in use: below them all sizes in bytes fit 64 bits.
constexpr double most_parameters = 1e15;
constexpr double most_tokens = 1e18;
constexpr double most_activations = 1e16;

// An estimate from above in floating point, where products cannot overflow: three matrices per feed-forward block, no
// tied weights.
double parameters(const ModelRecipe& model) {
  const auto as = [](std::int64_t value) { return static_cast<double>(value); };
  double attention = 2 * (as(model.heads) + as(model.kv_heads)) * as(model.head_dim) * as(model.hidden_size);
  if (model.latent_attention) {
    const LatentAttentionRecipe& latent = *model.latent_attention;
    const double inner = std::max(as(model.hidden_size), as(latent.query_rank) + as(latent.key_value_rank));
    attention = 3 * (as(model.heads) + 1) * (as(latent.head_dim()) + as(latent.value_head_dim)) * inner +
                as(model.hidden_size) * inner;
  }
  if (model.linear_attention) {
    const LinearAttentionRecipe& linear = *model.linear_attention;
    const double features =
        as(linear.key_heads) * as(linear.key_head_dim) + as(linear.value_heads) * as(linear.value_head_dim);
    attention = std::max(
        attention, (3 * features + 2 * as(linear.value_heads)) * (as(model.hidden_size) + as(linear.convolution)));
  }
  double layer = attention + 3 * as(model.hidden_size) * as(model.ffn_hidden_size);
  if (model.moe) {
    layer += 3 * as(model.hidden_size) * as(model.moe->ffn_hidden_size) *
             (as(model.moe->experts) + as(model.moe->shared_experts));
  }
  // A decoder's layer beside an encoder has another attention.
  return as(model.layers) * layer + as(model.decoder_layers) * (layer + attention) +
         as(model.hidden_size) * (2 * as(model.vocab_size) + as(model.max_sequence_length));
}

// Elements of the widest tensor of one micro-batch, in every layer.
double activations(const Recipe& recipe) {
  const auto& model = recipe.model;
  const auto length = recipe.batch.sequence_length;
  const std::int64_t value_size = model.latent_attention ? model.latent_attention->value_head_dim : 0;
  const auto& linear = model.linear_attention;
  const std::int64_t linear_width =
      linear ? std::max(linear->key_heads, linear->value_heads) * std::max(linear->key_head_dim, linear->value_head_dim)
             : 0;
  const auto widest = std::max({linear_width, model.vocab_size, model.ffn_hidden_size, model.hidden_size,
                                model.heads * (model.head_dim + value_size), model.heads * length});
  // Both factors are bounded by their keys' ranges, so this product fits 64 bits; the others are in floating point.
  return static_cast<double>(recipe.batch.micro * length) * static_cast<double>(widest) *
         static_cast<double>(block_count(model));
}

Verdict check_parameters(const Recipe& recipe, const Known&) {
  const auto count = parameters(recipe.model);
  if (count <= most_parameters) return {};
  return Refusal{"has about " + number_words(count) + " parameters", "must have at most 1e15"};
}

Verdict check_activations(const Recipe& recipe, const Known&) {
  if (activations(recipe) <= most_activations) return {};
  return Refusal{std::to_string(recipe.batch.micro) + " makes tensors too large to count",
                 "micro × sequence_length × the widest of vocab_size, ffn_hidden_size and heads × sequence_length × "
                 "layers must be at most 1e16"};
}

Verdict check_tokens(const Recipe& recipe, const Known&) {
  const auto& batch = recipe.batch;
  const auto steps = recipe.training.steps;
  const auto tokens =
      static_cast<double>(steps) * static_cast<double>(batch.global) * static_cast<double>(batch.sequence_length);
  if (tokens <= most_tokens) return {};
  return Refusal{std::to_string(steps) + " steps read too many tokens",
                 "steps × batch.global × batch.sequence_length must be at most 1e18"};
}

}  // namespace

std::vector<Rule> model_rules() {
  const std::string_view warmup = "/training/learning_rate/warmup_steps";
  return {
      {"/model/kv_heads", {"/model/heads"}, check_grouped_queries},
      {"/model/hidden_size", {"/model/heads", "/model/head_dim", "/model/latent_attention"}, check_hidden_size},
      {"/model/head_dim",
       {"/model/heads", "/model/hidden_size", "/model/position", "/model/architecture", "/model/latent_attention"},
       check_head_dim},
      {"/training/adapters_from", {"/model/lora", "/training/init_from"}, check_adapters},
      {"/model/rope_scaling", {"/model/position", "/model/architecture"}, check_rope_scaling},
      {"/model/rope_scaling/high_frequency_factor",
       {"/model/rope_scaling/low_frequency_factor", "/model/rope_scaling/type"},
       check_frequency_factors},
      {"/model/moe/top_k", {"/model/moe/experts"}, check_top_k},
      {"/model/moe/groups", {"/model/moe/experts"}, check_groups},
      {"/model/moe/top_groups", {"/model/moe/groups", "/model/moe/experts", "/model/moe/top_k"}, check_top_groups},
      {"/model/moe/router_bias", {"/model/moe/router"}, check_router_bias},
      {"/model/moe/score_function", {"/model/moe/balance_loss"}, check_score_function},
      {"/model/moe/shared_gate", {"/model/moe/shared_experts"}, check_shared_gate},
      {"/model/moe/every", {"/model/layers"}, check_expert_layers},
      {"/model/moe/dense_layers", {"/model/layers", "/model/moe/every"}, check_dense_layers},
      {"/model/moe/gate_noise", {"/model/moe/balance_loss"}, check_gate_noise},
      {"/model/moe/routing_trace", {"/model/moe/routing_zipf"}, check_routing},
      {"/log/routing", {"/model/moe/experts"}, check_routing_log},
      {"/batch/sequence_length", {"/model/max_sequence_length"}, check_sequence_length},
      {"/model/vocab_size",
       {"/model/architecture", "/data/tokenizer", "/data/train", "/data/validation"},
       check_vocabulary},
      {"/training/learning_rate/minimum", {"/training/learning_rate/peak"}, check_minimum},
      {"/training/learning_rate/decay_steps", {"/training/steps", warmup}, check_decay},
      {"/training/learning_rate/decay_length",
       {"/training/steps", "/training/learning_rate/decay_steps", warmup},
       check_decay_length},
      {"/training/evaluate_every", {"/data/train", "/data/validation"}, check_evaluation},
      {"/kernels/attention",
       {"/model/dropout", "/model/head_dim", "/model/heads", "/model/hidden_size", "/precision/compute",
        "/cluster/device", "/data/document_mask", "/data/fine_tuning", "/data/masking/single_texts", "/data/labels",
        "/data/spans", "/data/pairs", "/parallel/context"},
       check_attention},
  };
}

std::vector<Rule> size_rules() {
  return {
      {"/model", {}, check_parameters},
      {"/batch/micro", {"/model", "/batch/sequence_length"}, check_activations},
      {"/training/steps", {"/batch/global", "/batch/sequence_length", "/model/max_sequence_length"}, check_tokens},
  };
}

}  // namespace llmtrain
