// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/huggingface_local.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/recipe/model_from/huggingface_rope.h"

namespace llmtrain {
namespace {

using JsonValue = nlohmann::json;

// The interval of global layers that `layer_types` says, 0 where all layers are local; `otherwise` without the key.
std::int64_t read_interval(ConfigReader& reader, const ModelRecipe& model, std::int64_t otherwise) {
  const JsonValue* types = reader.get("layer_types");
  if (types == nullptr) return otherwise <= model.layers ? otherwise : 0;
  const bool is_list = types->is_array() && static_cast<std::int64_t>(types->size()) == model.layers;
  const auto is_global = [&](std::int64_t layer) {
    return (*types)[static_cast<std::size_t>(layer)] == "full_attention";
  };
  std::int64_t first = 0;
  while (is_list && first < model.layers && !is_global(first)) ++first;
  SlidingWindowRecipe window{.global_every = first == model.layers ? 0 : first + 1};
  bool is_regular = is_list;
  for (std::int64_t layer = 0; is_regular && layer < model.layers; ++layer)
    is_regular = is_global(layer) != window.is_local(layer) &&
                 (is_global(layer) || (*types)[static_cast<std::size_t>(layer)] == "sliding_attention");
  if (!is_regular)
    reader.problem("layer_types",
                   "has to say of each layer \"sliding_attention\" or, of every n-th one, "
                   "\"full_attention\"");
  return window.global_every;
}

SlidingWindowRecipe read_window(ConfigReader& reader, const ModelRecipe& model, std::int64_t tokens,
                                std::int64_t interval) {
  SlidingWindowRecipe window{.tokens = reader.size("sliding_window", tokens)};
  window.global_every = read_interval(reader, model, interval);
  window.rope_theta = model.rope_theta;
  return window;
}

void read_sizes(ConfigReader& reader, ModelRecipe& model) {
  model.architecture = Architecture::llama;
  model.layers = reader.size("num_hidden_layers");
  model.hidden_size = reader.size("hidden_size");
  model.heads = reader.size("num_attention_heads");
  model.kv_heads = reader.size("num_key_value_heads");
  model.head_dim = reader.size("head_dim");
  model.ffn_hidden_size = reader.size("intermediate_size");
  model.vocab_size = reader.size("vocab_size");
  model.max_sequence_length = reader.size("max_position_embeddings", 131072);
  model.norm = NormKind::rmsnorm;
  model.position = Position::rope;
  model.init_std = reader.number("initializer_range", 0.02);
}

// YaRN by transformers' default.
void read_gpt_oss_rope(ConfigReader& reader, ModelRecipe& model) {
  constexpr double theta = 150000, factor = 32;
  read_rope(reader, model, theta);
  if (reader.get("rope_scaling") != nullptr || reader.get("rope_parameters") != nullptr) return;
  model.rope_scaling = RopeScalingRecipe{.type = RopeScalingType::yarn,
                                         .factor = factor,
                                         .original_max_sequence_length = 4096,
                                         .attention_factor = 0.1 * std::log(factor) + 1,
                                         .truncate = false};
}

}  // namespace

ModelRecipe read_gpt_oss(ConfigReader& reader) {
  ModelRecipe model;
  read_sizes(reader, model);
  model.activation = Activation::clamped_swiglu;
  if (reader.text("hidden_act", "silu") != "silu") reader.problem("hidden_act", "is not silu");
  if (reader.number("swiglu_limit", 7) != 7) reader.problem("swiglu_limit", "is not 7, which alone is supported");
  model.norm_eps = reader.number("rms_norm_eps", 1e-5);
  read_gpt_oss_rope(reader, model);
  // Experts have biases at all times.
  reader.require("attention_bias", true, true);
  model.set_biases(true);
  model.attention_sinks = true;
  model.tie_embeddings = reader.boolean("tie_word_embeddings", false);
  model.sliding_window = read_window(reader, model, 128, 2);
  model.moe = MixtureOfExpertsRecipe{.experts = reader.size("num_local_experts"),
                                     .top_k = reader.size("num_experts_per_tok"),
                                     .capacity_factor = 0,
                                     .ffn_hidden_size = model.ffn_hidden_size,
                                     .router_bias = true,
                                     .normalize_gates = true};
  return model;
}

ModelRecipe read_gemma3(ConfigReader& reader) {
  ModelRecipe model;
  read_sizes(reader, model);
  model.activation = Activation::geglu_tanh;
  const std::string name = reader.get("hidden_activation") != nullptr ? "hidden_activation" : "hidden_act";
  if (reader.text(name, "gelu_pytorch_tanh") != "gelu_pytorch_tanh") reader.problem(name, "is not gelu_pytorch_tanh");
  model.norm_eps = reader.number("rms_norm_eps", 1e-6);
  const double local_theta = read_rope_of_global_layers(reader, model);
  reader.require("attention_bias", false, false);
  reader.require("use_bidirectional_attention", false, false);
  for (const char* key : {"final_logit_softcapping", "attn_logit_softcapping"})
    if (reader.get(key) != nullptr) reader.problem(key, "is not null; logits are not capped");
  model.set_biases(false);
  model.qk_norm = model.post_norms = true;
  model.tie_embeddings = reader.boolean("tie_word_embeddings", true);
  const double scalar = reader.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) reader.problem("query_pre_attn_scalar", "is not above 0");
  if (scalar != static_cast<double>(model.head_dim)) model.attention_scale = 1 / std::sqrt(scalar);
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden_size));
  model.sliding_window = read_window(reader, model, 4096, reader.size("sliding_window_pattern", 6));
  model.sliding_window->rope_theta = local_theta;
  model.sliding_window->rope_scaling = false;
  return model;
}

}  // namespace llmtrain
