// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/encoder_decoder_places.h"

namespace llmtrain {
namespace {

constexpr TensorPlace bart_places[] = {
    {"encoder.embedding.token.weight", "model.shared.weight"},
    {"encoder.embedding.position.weight", "model.encoder.embed_positions.weight"},
    {"encoder.embedding.norm.weight", "model.encoder.layernorm_embedding.weight"},
    {"encoder.embedding.norm.bias", "model.encoder.layernorm_embedding.bias"},
    {"encoder.attention.query.weight", "model.encoder.layers.{}.self_attn.q_proj.weight"},
    {"encoder.attention.query.bias", "model.encoder.layers.{}.self_attn.q_proj.bias"},
    {"encoder.attention.key.weight", "model.encoder.layers.{}.self_attn.k_proj.weight"},
    {"encoder.attention.key.bias", "model.encoder.layers.{}.self_attn.k_proj.bias"},
    {"encoder.attention.value.weight", "model.encoder.layers.{}.self_attn.v_proj.weight"},
    {"encoder.attention.value.bias", "model.encoder.layers.{}.self_attn.v_proj.bias"},
    {"encoder.attention.output.weight", "model.encoder.layers.{}.self_attn.out_proj.weight"},
    {"encoder.attention.output.bias", "model.encoder.layers.{}.self_attn.out_proj.bias"},
    {"encoder.attention_norm.weight", "model.encoder.layers.{}.self_attn_layer_norm.weight"},
    {"encoder.attention_norm.bias", "model.encoder.layers.{}.self_attn_layer_norm.bias"},
    {"encoder.ffn.up.weight", "model.encoder.layers.{}.fc1.weight"},
    {"encoder.ffn.up.bias", "model.encoder.layers.{}.fc1.bias"},
    {"encoder.ffn.down.weight", "model.encoder.layers.{}.fc2.weight"},
    {"encoder.ffn.down.bias", "model.encoder.layers.{}.fc2.bias"},
    {"encoder.ffn_norm.weight", "model.encoder.layers.{}.final_layer_norm.weight"},
    {"encoder.ffn_norm.bias", "model.encoder.layers.{}.final_layer_norm.bias"},
    {"decoder.embedding.position.weight", "model.decoder.embed_positions.weight"},
    {"decoder.embedding.norm.weight", "model.decoder.layernorm_embedding.weight"},
    {"decoder.embedding.norm.bias", "model.decoder.layernorm_embedding.bias"},
    {"decoder.attention.query.weight", "model.decoder.layers.{}.self_attn.q_proj.weight"},
    {"decoder.attention.query.bias", "model.decoder.layers.{}.self_attn.q_proj.bias"},
    {"decoder.attention.key.weight", "model.decoder.layers.{}.self_attn.k_proj.weight"},
    {"decoder.attention.key.bias", "model.decoder.layers.{}.self_attn.k_proj.bias"},
    {"decoder.attention.value.weight", "model.decoder.layers.{}.self_attn.v_proj.weight"},
    {"decoder.attention.value.bias", "model.decoder.layers.{}.self_attn.v_proj.bias"},
    {"decoder.attention.output.weight", "model.decoder.layers.{}.self_attn.out_proj.weight"},
    {"decoder.attention.output.bias", "model.decoder.layers.{}.self_attn.out_proj.bias"},
    {"decoder.attention_norm.weight", "model.decoder.layers.{}.self_attn_layer_norm.weight"},
    {"decoder.attention_norm.bias", "model.decoder.layers.{}.self_attn_layer_norm.bias"},
    {"decoder.cross_attention.query.weight", "model.decoder.layers.{}.encoder_attn.q_proj.weight"},
    {"decoder.cross_attention.query.bias", "model.decoder.layers.{}.encoder_attn.q_proj.bias"},
    {"decoder.cross_attention.key.weight", "model.decoder.layers.{}.encoder_attn.k_proj.weight"},
    {"decoder.cross_attention.key.bias", "model.decoder.layers.{}.encoder_attn.k_proj.bias"},
    {"decoder.cross_attention.value.weight", "model.decoder.layers.{}.encoder_attn.v_proj.weight"},
    {"decoder.cross_attention.value.bias", "model.decoder.layers.{}.encoder_attn.v_proj.bias"},
    {"decoder.cross_attention.output.weight", "model.decoder.layers.{}.encoder_attn.out_proj.weight"},
    {"decoder.cross_attention.output.bias", "model.decoder.layers.{}.encoder_attn.out_proj.bias"},
    {"decoder.cross_attention_norm.weight", "model.decoder.layers.{}.encoder_attn_layer_norm.weight"},
    {"decoder.cross_attention_norm.bias", "model.decoder.layers.{}.encoder_attn_layer_norm.bias"},
    {"decoder.ffn.up.weight", "model.decoder.layers.{}.fc1.weight"},
    {"decoder.ffn.up.bias", "model.decoder.layers.{}.fc1.bias"},
    {"decoder.ffn.down.weight", "model.decoder.layers.{}.fc2.weight"},
    {"decoder.ffn.down.bias", "model.decoder.layers.{}.fc2.bias"},
    {"decoder.ffn_norm.weight", "model.decoder.layers.{}.final_layer_norm.weight"},
    {"decoder.ffn_norm.bias", "model.decoder.layers.{}.final_layer_norm.bias"},
};

constexpr TensorPlace t5_places[] = {
    {"encoder.embedding.token.weight", "shared.weight"},
    {"encoder.attention_norm.weight", "encoder.block.{}.layer.0.layer_norm.weight"},
    {"encoder.attention.query.weight", "encoder.block.{}.layer.0.SelfAttention.q.weight"},
    {"encoder.attention.key.weight", "encoder.block.{}.layer.0.SelfAttention.k.weight"},
    {"encoder.attention.value.weight", "encoder.block.{}.layer.0.SelfAttention.v.weight"},
    {"encoder.attention.output.weight", "encoder.block.{}.layer.0.SelfAttention.o.weight"},
    {"encoder.relative_bias.weight", "encoder.block.{}.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"encoder.ffn_norm.weight", "encoder.block.{}.layer.1.layer_norm.weight"},
    {"encoder.ffn.down.weight", "encoder.block.{}.layer.1.DenseReluDense.wo.weight"},
    {"decoder.attention_norm.weight", "decoder.block.{}.layer.0.layer_norm.weight"},
    {"decoder.attention.query.weight", "decoder.block.{}.layer.0.SelfAttention.q.weight"},
    {"decoder.attention.key.weight", "decoder.block.{}.layer.0.SelfAttention.k.weight"},
    {"decoder.attention.value.weight", "decoder.block.{}.layer.0.SelfAttention.v.weight"},
    {"decoder.attention.output.weight", "decoder.block.{}.layer.0.SelfAttention.o.weight"},
    {"decoder.relative_bias.weight", "decoder.block.{}.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"decoder.cross_attention_norm.weight", "decoder.block.{}.layer.1.layer_norm.weight"},
    {"decoder.cross_attention.query.weight", "decoder.block.{}.layer.1.EncDecAttention.q.weight"},
    {"decoder.cross_attention.key.weight", "decoder.block.{}.layer.1.EncDecAttention.k.weight"},
    {"decoder.cross_attention.value.weight", "decoder.block.{}.layer.1.EncDecAttention.v.weight"},
    {"decoder.cross_attention.output.weight", "decoder.block.{}.layer.1.EncDecAttention.o.weight"},
    {"decoder.ffn_norm.weight", "decoder.block.{}.layer.2.layer_norm.weight"},
    {"decoder.ffn.down.weight", "decoder.block.{}.layer.2.DenseReluDense.wo.weight"},
    {"encoder.norm.norm.weight", "encoder.final_layer_norm.weight"},
    {"head.norm.weight", "decoder.final_layer_norm.weight"},
    {"head.head.weight", "lm_head.weight"},
};

constexpr TensorPlace t5_plain_places[] = {
    {"encoder.ffn.up.weight", "encoder.block.{}.layer.1.DenseReluDense.wi.weight"},
    {"decoder.ffn.up.weight", "decoder.block.{}.layer.2.DenseReluDense.wi.weight"},
};

constexpr TensorPlace t5_gated_places[] = {
    {"encoder.ffn.gate.weight", "encoder.block.{}.layer.1.DenseReluDense.wi_0.weight"},
    {"encoder.ffn.up.weight", "encoder.block.{}.layer.1.DenseReluDense.wi_1.weight"},
    {"decoder.ffn.gate.weight", "decoder.block.{}.layer.2.DenseReluDense.wi_0.weight"},
    {"decoder.ffn.up.weight", "decoder.block.{}.layer.2.DenseReluDense.wi_1.weight"},
};

}  // namespace

std::vector<std::span<const TensorPlace>> encoder_decoder_places(HuggingfaceType type, Activation activation) {
  if (type == HuggingfaceType::bart) return {bart_places};
  if (is_gated(activation)) return {t5_places, t5_gated_places};
  return {t5_places, t5_plain_places};
}

}  // namespace llmtrain
