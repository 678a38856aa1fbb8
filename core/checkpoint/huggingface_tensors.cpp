// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/huggingface_tensors.h"

#include <stdexcept>

namespace llmtrain {
namespace {

using Role = ParameterRole;

enum class Storage { plain, transposed };

struct Place {
  std::string name;
  Storage storage = Storage::plain;
};

Place gpt2_layer_place(Role role) {
  switch (role) {
    case Role::attention_norm_weight:
      return {"ln_1.weight"};
    case Role::attention_norm_bias:
      return {"ln_1.bias"};
    case Role::query_weight:
    case Role::key_weight:
    case Role::value_weight:
      return {"attn.c_attn.weight", Storage::transposed};
    case Role::query_bias:
    case Role::key_bias:
    case Role::value_bias:
      return {"attn.c_attn.bias"};
    case Role::attention_output_weight:
      return {"attn.c_proj.weight", Storage::transposed};
    case Role::attention_output_bias:
      return {"attn.c_proj.bias"};
    case Role::ffn_norm_weight:
      return {"ln_2.weight"};
    case Role::ffn_norm_bias:
      return {"ln_2.bias"};
    case Role::ffn_up_weight:
      return {"mlp.c_fc.weight", Storage::transposed};
    case Role::ffn_up_bias:
      return {"mlp.c_fc.bias"};
    case Role::ffn_down_weight:
      return {"mlp.c_proj.weight", Storage::transposed};
    case Role::ffn_down_bias:
      return {"mlp.c_proj.bias"};
    default:
      throw std::logic_error("GPT-2 has no parameter of this role");
  }
}

Place gpt2_place(Role role, std::int64_t layer) {
  switch (role) {
    case Role::token_embedding:
      return {"transformer.wte.weight"};
    case Role::position_embedding:
      return {"transformer.wpe.weight"};
    case Role::final_norm_weight:
      return {"transformer.ln_f.weight"};
    case Role::final_norm_bias:
      return {"transformer.ln_f.bias"};
    case Role::head_weight:
      return {"lm_head.weight"};
    default:
      Place place = gpt2_layer_place(role);
      place.name.insert(0, "transformer.h." + std::to_string(layer) + ".");
      return place;
  }
}

std::string llama_layer_name(Role role) {
  switch (role) {
    case Role::attention_norm_weight:
      return "input_layernorm.weight";
    case Role::query_weight:
      return "self_attn.q_proj.weight";
    case Role::query_bias:
      return "self_attn.q_proj.bias";
    case Role::query_norm_weight:
      return "self_attn.q_norm.weight";
    case Role::key_weight:
      return "self_attn.k_proj.weight";
    case Role::key_bias:
      return "self_attn.k_proj.bias";
    case Role::key_norm_weight:
      return "self_attn.k_norm.weight";
    case Role::value_weight:
      return "self_attn.v_proj.weight";
    case Role::value_bias:
      return "self_attn.v_proj.bias";
    case Role::attention_output_weight:
      return "self_attn.o_proj.weight";
    case Role::attention_output_bias:
      return "self_attn.o_proj.bias";
    case Role::ffn_norm_weight:
      return "post_attention_layernorm.weight";
    case Role::ffn_gate_weight:
      return "mlp.gate_proj.weight";
    case Role::ffn_gate_bias:
      return "mlp.gate_proj.bias";
    case Role::ffn_up_weight:
      return "mlp.up_proj.weight";
    case Role::ffn_up_bias:
      return "mlp.up_proj.bias";
    case Role::ffn_down_weight:
      return "mlp.down_proj.weight";
    case Role::ffn_down_bias:
      return "mlp.down_proj.bias";
    default:
      throw std::logic_error("the Llama family has no parameter of this role");
  }
}

Place llama_place(Role role, std::int64_t layer) {
  switch (role) {
    case Role::token_embedding:
      return {"model.embed_tokens.weight"};
    case Role::final_norm_weight:
      return {"model.norm.weight"};
    case Role::head_weight:
      return {"lm_head.weight"};
    default:
      return {"model.layers." + std::to_string(layer) + "." + llama_layer_name(role)};
  }
}

// Adds a parameter to the tensor that it is a part of, which may be there already.
void add(std::vector<HuggingfaceTensor>& tensors, const Place& place, std::size_t parameter) {
  for (HuggingfaceTensor& tensor : tensors)
    if (tensor.name == place.name) {
      tensor.parameters.push_back(parameter);
      return;
    }
  tensors.push_back({place.name, {parameter}, place.storage == Storage::transposed});
}

}  // namespace

std::vector<std::int64_t> HuggingfaceTensor::shape(const Graph& graph) const {
  std::vector<std::int64_t> whole = graph.parameters[parameters.front()].shape;
  whole.front() = 0;
  for (const std::size_t parameter : parameters) whole.front() += graph.parameters[parameter].shape.front();
  if (transposed) std::swap(whole.front(), whole.back());
  return whole;
}

std::vector<HuggingfaceTensor> huggingface_tensors(const Graph& graph, HuggingfaceType type) {
  std::vector<HuggingfaceTensor> tensors;
  for (const Block& block : graph.blocks) {
    std::vector<HuggingfaceTensor> of_block;
    for (const std::size_t parameter : block.parameters) {
      const Role role = graph.parameters[parameter].role;
      const bool is_gpt2 = type == HuggingfaceType::gpt2;
      add(of_block, is_gpt2 ? gpt2_place(role, block.layer) : llama_place(role, block.layer), parameter);
    }
    tensors.insert(tensors.end(), of_block.begin(), of_block.end());
  }
  return tensors;
}

std::string without_model_prefix(std::string_view name, HuggingfaceType type) {
  const std::string_view prefix = type == HuggingfaceType::gpt2 ? "transformer." : "model.";
  return std::string(name.starts_with(prefix) ? name.substr(prefix.size()) : name);
}

bool is_huggingface_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace llmtrain
