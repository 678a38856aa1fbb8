// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/huggingface_deepseek.h"

#include <cstdint>
#include <string>

#include "core/recipe/model_from/huggingface_rope.h"

namespace llmtrain {
namespace {

LatentAttentionRecipe read_latent_attention(ConfigReader& reader, HuggingfaceType type) {
  LatentAttentionRecipe latent;
  // null: no such rank. Where there is no key, it is each type's default.
  const std::int64_t otherwise = reader.holds("q_lora_rank") ? 0 : 1536;
  latent.query_rank = reader.get("q_lora_rank") != nullptr ? reader.size("q_lora_rank") : otherwise;
  latent.key_value_rank = reader.size("kv_lora_rank", 512);
  latent.nope_head_dim = reader.size("qk_nope_head_dim", 128);
  latent.rope_head_dim = reader.size("qk_rope_head_dim", 64);
  latent.value_head_dim = reader.size("v_head_dim", 128);
  if (latent.rope_head_dim % 2 != 0) reader.problem("qk_rope_head_dim", "is odd; pairs of elements are rotated");
  // V2 has these biases only where it says so, and no key of a recipe has them of the latent projections.
  reader.require("attention_bias", false, false);
  if (type == HuggingfaceType::deepseek_v2) reader.require("mlp_bias", false, false);
  return latent;
}

// V2 chooses groups where it says so, V3 at all times.
void read_groups(ConfigReader& reader, HuggingfaceType type, MixtureOfExpertsRecipe& moe) {
  const bool is_v3 = type == HuggingfaceType::deepseek_v3;
  const std::string method = reader.text("topk_method", is_v3 ? "noaux_tc" : "greedy");
  const bool is_limited = is_v3 || method == "group_limited_greedy";
  if (!is_v3 && !is_limited && method != "greedy")
    reader.problem("topk_method", "is \"" + method + "\"; greedy and group_limited_greedy can be read");
  if (!is_limited) return;
  moe.groups = reader.size("n_group", is_v3 ? 8 : 1);
  moe.top_groups = reader.size("topk_group", is_v3 ? 4 : 1);
  if (moe.experts % moe.groups != 0 || moe.top_groups > moe.groups)
    reader.problem("n_group", "has to divide /n_routed_experts, and /topk_group may not be above it");
}

MixtureOfExpertsRecipe read_deepseek_experts(ConfigReader& reader, HuggingfaceType type, const ModelRecipe& model) {
  const bool is_v3 = type == HuggingfaceType::deepseek_v3;
  MixtureOfExpertsRecipe moe;
  moe.capacity_factor = 0;
  moe.experts = reader.size("n_routed_experts", is_v3 ? 256 : 64);
  moe.top_k = reader.size("num_experts_per_tok", is_v3 ? std::optional<std::int64_t>(8) : std::nullopt);
  moe.ffn_hidden_size = reader.size("moe_intermediate_size", is_v3 ? 2048 : 1407);
  // null: none.
  if (reader.get("n_shared_experts") != nullptr)
    moe.shared_experts = reader.size("n_shared_experts");
  else if (!reader.holds("n_shared_experts"))
    moe.shared_experts = is_v3 ? 1 : 2;
  // A number that may be 0, unlike sizes.
  moe.dense_layers = static_cast<std::int64_t>(reader.number("first_k_dense_replace", is_v3 ? 3 : 0));
  moe.every = reader.size("moe_layer_freq", 1);
  if (moe.dense_layers < 0 || moe.dense_layers >= model.layers / moe.every * moe.every)
    reader.problem("first_k_dense_replace", "leaves no layer with experts");
  moe.normalize_gates = reader.boolean("norm_topk_prob", is_v3);
  moe.gate_scale = reader.number("routed_scaling_factor", is_v3 ? 2.5 : 1);
  if (!(moe.gate_scale > 0)) reader.problem("routed_scaling_factor", "is not above 0");
  if (is_v3) {
    moe.score_function = ScoreFunction::sigmoid;
    moe.selection_bias = true;
  }
  read_groups(reader, type, moe);
  return moe;
}

}  // namespace

ModelRecipe read_deepseek(ConfigReader& reader, HuggingfaceType type) {
  ModelRecipe model;
  model.architecture = Architecture::llama;
  model.layers = reader.size("num_hidden_layers");
  model.hidden_size = reader.size("hidden_size");
  model.heads = model.kv_heads = reader.size("num_attention_heads");
  model.latent_attention = read_latent_attention(reader, type);
  model.head_dim = model.latent_attention->head_dim();
  model.ffn_hidden_size = reader.size("intermediate_size");
  model.vocab_size = reader.size("vocab_size");
  model.max_sequence_length = reader.size("max_position_embeddings");
  model.activation = Activation::swiglu;
  if (reader.text("hidden_act", "silu") != "silu") reader.problem("hidden_act", "is not silu");
  model.norm = NormKind::rmsnorm;
  model.norm_eps = reader.number("rms_norm_eps", 1e-6);
  model.position = Position::rope;
  read_rope(reader, model, 10000);
  model.set_biases(false);
  model.tie_embeddings = reader.boolean("tie_word_embeddings", false);
  model.init_std = reader.number("initializer_range", 0.02);
  model.moe = read_deepseek_experts(reader, type, model);
  return model;
}

}  // namespace llmtrain
