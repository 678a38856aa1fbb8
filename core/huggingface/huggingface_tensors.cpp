// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/huggingface_tensors.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

namespace llmtrain {
namespace {

using Role = ParameterRole;

enum class Storage { plain, transposed };

// The tensor in which transformers keeps the parameters of a role; names within a layer follow the layer's prefix.
struct Place {
  Role role{};
  std::string_view name;
  Storage storage = Storage::plain;
};

struct Family {
  std::string_view model_prefix;  // of every name but the head's
  std::string_view layers;        // before the layer's index
  std::span<const Place> of_model;
  std::span<const Place> of_layer;
};

constexpr Place gpt2_model[] = {
    {Role::token_embedding, "transformer.wte.weight"},
    {Role::position_embedding, "transformer.wpe.weight"},
    {Role::final_norm_weight, "transformer.ln_f.weight"},
    {Role::final_norm_bias, "transformer.ln_f.bias"},
    {Role::head_weight, "lm_head.weight"},
};

constexpr Place gpt2_layer[] = {
    {Role::attention_norm_weight, "ln_1.weight"},
    {Role::attention_norm_bias, "ln_1.bias"},
    {Role::query_weight, "attn.c_attn.weight", Storage::transposed},
    {Role::key_weight, "attn.c_attn.weight", Storage::transposed},
    {Role::value_weight, "attn.c_attn.weight", Storage::transposed},
    {Role::query_bias, "attn.c_attn.bias"},
    {Role::key_bias, "attn.c_attn.bias"},
    {Role::value_bias, "attn.c_attn.bias"},
    {Role::attention_output_weight, "attn.c_proj.weight", Storage::transposed},
    {Role::attention_output_bias, "attn.c_proj.bias"},
    {Role::ffn_norm_weight, "ln_2.weight"},
    {Role::ffn_norm_bias, "ln_2.bias"},
    {Role::ffn_up_weight, "mlp.c_fc.weight", Storage::transposed},
    {Role::ffn_up_bias, "mlp.c_fc.bias"},
    {Role::ffn_down_weight, "mlp.c_proj.weight", Storage::transposed},
    {Role::ffn_down_bias, "mlp.c_proj.bias"},
};

constexpr Place llama_model[] = {
    {Role::token_embedding, "model.embed_tokens.weight"},
    {Role::final_norm_weight, "model.norm.weight"},
    {Role::head_weight, "lm_head.weight"},
};

constexpr Place llama_layer[] = {
    {Role::attention_norm_weight, "input_layernorm.weight"},
    {Role::query_weight, "self_attn.q_proj.weight"},
    {Role::query_bias, "self_attn.q_proj.bias"},
    {Role::query_norm_weight, "self_attn.q_norm.weight"},
    {Role::key_weight, "self_attn.k_proj.weight"},
    {Role::key_bias, "self_attn.k_proj.bias"},
    {Role::key_norm_weight, "self_attn.k_norm.weight"},
    {Role::value_weight, "self_attn.v_proj.weight"},
    {Role::value_bias, "self_attn.v_proj.bias"},
    {Role::attention_output_weight, "self_attn.o_proj.weight"},
    {Role::attention_output_bias, "self_attn.o_proj.bias"},
    {Role::ffn_norm_weight, "post_attention_layernorm.weight"},
    {Role::ffn_gate_weight, "mlp.gate_proj.weight"},
    {Role::ffn_gate_bias, "mlp.gate_proj.bias"},
    {Role::ffn_up_weight, "mlp.up_proj.weight"},
    {Role::ffn_up_bias, "mlp.up_proj.bias"},
    {Role::ffn_down_weight, "mlp.down_proj.weight"},
    {Role::ffn_down_bias, "mlp.down_proj.bias"},
};

const Family& family_of(HuggingfaceType type) {
  static constexpr Family gpt2 = {"transformer.", "transformer.h.", gpt2_model, gpt2_layer};
  static constexpr Family llama = {"model.", "model.layers.", llama_model, llama_layer};
  return type == HuggingfaceType::gpt2 ? gpt2 : llama;
}

HuggingfaceTensor place_of(const Family& family, Role role, std::int64_t layer) {
  const auto tensor = [](const Place& place, std::string name) {
    return HuggingfaceTensor{std::move(name), {}, place.storage == Storage::transposed};
  };
  for (const Place& place : family.of_model)
    if (place.role == role) return tensor(place, std::string(place.name));
  for (const Place& place : family.of_layer)
    if (place.role == role) return tensor(place, fmt::format("{}{}.{}", family.layers, layer, place.name));
  throw std::logic_error("this family of models has no parameter of this role");
}

// Adds a parameter to the tensor that contains it, which may exist already.
void add(std::vector<HuggingfaceTensor>& tensors, HuggingfaceTensor place, std::size_t parameter) {
  auto tensor = std::ranges::find(tensors, place.name, &HuggingfaceTensor::name);
  if (tensor == tensors.end()) tensor = tensors.insert(tensors.end(), std::move(place));
  tensor->parameters.push_back(parameter);
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
  const Family& family = family_of(type);
  for (const Block& block : graph.blocks) {
    // Block by block, since only parameters of one block share a tensor.
    std::vector<HuggingfaceTensor> of_block;
    for (const std::size_t parameter : block.parameters)
      add(of_block, place_of(family, graph.parameters[parameter].role, block.layer), parameter);
    tensors.insert(tensors.end(), of_block.begin(), of_block.end());
  }
  return tensors;
}

std::string without_model_prefix(std::string_view name, HuggingfaceType type) {
  const std::string_view prefix = family_of(type).model_prefix;
  return std::string(name.starts_with(prefix) ? name.substr(prefix.size()) : name);
}

bool is_huggingface_buffer(std::string_view name) {
  // Causal masks and rotary frequencies.
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace llmtrain
