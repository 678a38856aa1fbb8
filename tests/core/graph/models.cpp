// SPDX-License-Identifier: Apache-2.0
#include "tests/core/graph/models.h"

#include "core/graph/values.h"

namespace llmtrain::test {

ModelRecipe gpt2_model(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelRecipe model;
  model.layers = layers;
  model.hidden_size = hidden;
  model.heads = model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.ffn_hidden_size = 4 * hidden;
  model.vocab_size = 50257;
  model.max_sequence_length = 1024;
  return model;
}

ModelRecipe llama2_7b() {
  ModelRecipe model;
  model.architecture = Architecture::llama;
  model.layers = 32;
  model.hidden_size = 4096;
  model.heads = model.kv_heads = 32;
  model.head_dim = 128;
  model.ffn_hidden_size = 11008;
  model.vocab_size = 32000;
  model.max_sequence_length = 4096;
  model.activation = Activation::swiglu;
  model.norm = NormKind::rmsnorm;
  model.position = Position::rope;
  model.set_biases(false);
  model.tie_embeddings = false;
  return model;
}

ModelRecipe llama3_8b() {
  ModelRecipe model = llama2_7b();
  model.kv_heads = 8;
  model.ffn_hidden_size = 14336;
  model.vocab_size = 128256;
  return model;
}

ModelRecipe qwen3_600m() {
  ModelRecipe model = llama2_7b();
  model.layers = 28;
  model.hidden_size = 1024;
  model.heads = 16;
  model.kv_heads = 8;
  model.ffn_hidden_size = 3072;
  model.vocab_size = 151936;
  model.tie_embeddings = model.qk_norm = true;
  return model;
}

ModelRecipe mixtral_8x7b() {
  ModelRecipe model = llama3_8b();
  model.vocab_size = 32000;
  model.moe = MixtureOfExpertsRecipe{.experts = 8, .top_k = 2, .ffn_hidden_size = 14336};
  return model;
}

ModelRecipe qwen3_30b_a3b() {
  ModelRecipe model = llama2_7b();
  model.layers = 48;
  model.hidden_size = 2048;
  model.kv_heads = 4;
  model.ffn_hidden_size = 6144;
  model.vocab_size = 151936;
  model.qk_norm = true;
  model.moe = MixtureOfExpertsRecipe{.experts = 128, .top_k = 8, .ffn_hidden_size = 768};
  return model;
}

ModelRecipe deepseek_v2_lite() {
  ModelRecipe model = llama2_7b();
  model.layers = 27;
  model.hidden_size = 2048;
  model.heads = model.kv_heads = 16;
  model.head_dim = 192;
  model.latent_attention = {.key_value_rank = 512, .nope_head_dim = 128, .rope_head_dim = 64, .value_head_dim = 128};
  model.ffn_hidden_size = 10944;
  model.vocab_size = 102400;
  model.moe = MixtureOfExpertsRecipe{
      .experts = 64, .top_k = 6, .dense_layers = 1, .capacity_factor = 0, .ffn_hidden_size = 1408, .shared_experts = 2};
  return model;
}

ModelRecipe deepseek_v3() {
  ModelRecipe model = deepseek_v2_lite();
  model.layers = 61;
  model.hidden_size = 7168;
  model.heads = model.kv_heads = 128;
  model.latent_attention->query_rank = 1536;
  model.ffn_hidden_size = 18432;
  model.vocab_size = 129280;
  model.moe = MixtureOfExpertsRecipe{.experts = 256,
                                     .top_k = 8,
                                     .dense_layers = 3,
                                     .capacity_factor = 0,
                                     .ffn_hidden_size = 2048,
                                     .shared_experts = 1,
                                     .score_function = ScoreFunction::sigmoid,
                                     .selection_bias = true,
                                     .groups = 8,
                                     .top_groups = 4};
  return model;
}

ModelRecipe gpt_oss(std::int64_t layers, std::int64_t experts) {
  ModelRecipe model = llama2_7b();
  model.layers = layers;
  model.hidden_size = model.ffn_hidden_size = 2880;
  model.heads = 64;
  model.kv_heads = 8;
  model.head_dim = 64;
  model.vocab_size = 201088;
  model.activation = Activation::clamped_swiglu;
  model.set_biases(true);
  model.sliding_window = {.tokens = 128, .global_every = 2};
  model.attention_sinks = true;
  model.moe = MixtureOfExpertsRecipe{
      .experts = experts, .top_k = 4, .capacity_factor = 0, .ffn_hidden_size = 2880, .router_bias = true};
  return model;
}

ModelRecipe gemma3_27b() {
  ModelRecipe model = llama2_7b();
  model.layers = 62;
  model.hidden_size = 5376;
  model.heads = 32;
  model.kv_heads = 16;
  model.head_dim = 128;
  model.ffn_hidden_size = 21504;
  model.vocab_size = 262208;
  model.activation = Activation::geglu_tanh;
  model.sliding_window = {.tokens = 1024, .global_every = 6};
  model.qk_norm = model.post_norms = model.tie_embeddings = true;
  return model;
}

ModelRecipe qwen3_next_80b() {
  ModelRecipe model = llama2_7b();
  model.layers = 48;
  model.hidden_size = 2048;
  model.heads = 16;
  model.kv_heads = 2;
  model.head_dim = 256;
  model.rotary_dim = 64;
  model.ffn_hidden_size = 512;
  model.vocab_size = 151936;
  model.qk_norm = model.attention_gate = true;
  model.linear_attention =
      LinearAttentionRecipe{.key_heads = 16, .value_heads = 32, .key_head_dim = 128, .value_head_dim = 128};
  model.layer_kinds = {"linear", "linear", "linear", "attention"};
  model.moe = MixtureOfExpertsRecipe{.experts = 512,
                                     .top_k = 10,
                                     .capacity_factor = 0,
                                     .ffn_hidden_size = 512,
                                     .shared_experts = 1,
                                     .shared_gate = true,
                                     .normalize_gates = true};
  return model;
}

ModelRecipe nemotron_h_8b() {
  ModelRecipe model = llama2_7b();
  model.layers = 52;
  model.hidden_size = 4096;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.ffn_hidden_size = 21504;
  model.vocab_size = 131072;
  model.activation = Activation::squared_relu;
  model.position = Position::none;
  model.linear_attention = LinearAttentionRecipe{.kind = LinearAttentionKind::mamba2,
                                                 .key_heads = 8,
                                                 .value_heads = 128,
                                                 .key_head_dim = 128,
                                                 .value_head_dim = 64,
                                                 .convolution_bias = true,
                                                 .chunk = 128};
  for (const char layer : std::string_view("M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"))
    model.layer_kinds.emplace_back(layer == 'M'   ? "linear_alone"
                                   : layer == '*' ? "attention_alone"
                                                  : "feed_forward_alone");
  return model;
}

OperatorList operators_of(const Graph& graph, std::size_t block, const PassSetting& setting) {
  return block_operators(graph, block, setting);
}

double saved_bytes(const Graph& graph, std::size_t block, const PassSetting& setting) {
  return saved_bytes(operators_of(graph, block, setting), setting.recompute);
}

PassPeak pass_peak(const Graph& graph, std::size_t block, const PassSetting& setting) {
  return pass_peak(operators_of(graph, block, setting), setting.recompute, output_bytes(graph, block, setting));
}

std::vector<ModelRecipe> all_small_models() {
  std::vector<ModelRecipe> models;
  for (unsigned bits = 0; bits < 512; ++bits) {
    const auto chosen = [bits](unsigned bit) { return (bits >> bit & 1U) != 0; };
    ModelRecipe model;
    model.layers = 2;
    model.hidden_size = 24;
    model.heads = 4;
    model.kv_heads = chosen(0) ? 4 : 2;
    model.head_dim = chosen(1) ? 6 : 10;
    model.ffn_hidden_size = 50;
    model.vocab_size = 97;
    model.max_sequence_length = 16;
    model.bias = chosen(2);
    model.qkv_bias = chosen(3);
    model.attention_output_bias = chosen(2) != chosen(7);
    model.qk_norm = chosen(4);
    model.tie_embeddings = chosen(5);
    model.norm = chosen(6) ? NormKind::layernorm : NormKind::rmsnorm;
    model.activation = chosen(7) ? Activation::gelu : Activation::swiglu;
    model.position = chosen(8) ? Position::learned : Position::rope;
    models.push_back(model);
  }
  return models;
}

}  // namespace llmtrain::test
