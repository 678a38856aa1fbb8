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

// The tensor in which transformers keeps the parameters of a role; the first {} stands for the layer's index, the
// second one for the expert's.
struct Place {
  Role role{};
  std::string_view name;
  Storage storage = Storage::plain;
};

constexpr Place gpt2_places[] = {
    {Role::token_embedding, "transformer.wte.weight"},
    {Role::position_embedding, "transformer.wpe.weight"},
    {Role::final_norm_weight, "transformer.ln_f.weight"},
    {Role::final_norm_bias, "transformer.ln_f.bias"},
    {Role::head_weight, "lm_head.weight"},
    {Role::attention_norm_weight, "transformer.h.{}.ln_1.weight"},
    {Role::attention_norm_bias, "transformer.h.{}.ln_1.bias"},
    {Role::query_weight, "transformer.h.{}.attn.c_attn.weight", Storage::transposed},
    {Role::key_weight, "transformer.h.{}.attn.c_attn.weight", Storage::transposed},
    {Role::value_weight, "transformer.h.{}.attn.c_attn.weight", Storage::transposed},
    {Role::query_bias, "transformer.h.{}.attn.c_attn.bias"},
    {Role::key_bias, "transformer.h.{}.attn.c_attn.bias"},
    {Role::value_bias, "transformer.h.{}.attn.c_attn.bias"},
    {Role::attention_output_weight, "transformer.h.{}.attn.c_proj.weight", Storage::transposed},
    {Role::attention_output_bias, "transformer.h.{}.attn.c_proj.bias"},
    {Role::ffn_norm_weight, "transformer.h.{}.ln_2.weight"},
    {Role::ffn_norm_bias, "transformer.h.{}.ln_2.bias"},
    {Role::ffn_up_weight, "transformer.h.{}.mlp.c_fc.weight", Storage::transposed},
    {Role::ffn_up_bias, "transformer.h.{}.mlp.c_fc.bias"},
    {Role::ffn_down_weight, "transformer.h.{}.mlp.c_proj.weight", Storage::transposed},
    {Role::ffn_down_bias, "transformer.h.{}.mlp.c_proj.bias"},
};

constexpr Place llama_places[] = {
    {Role::token_embedding, "model.embed_tokens.weight"},
    {Role::final_norm_weight, "model.norm.weight"},
    {Role::head_weight, "lm_head.weight"},
    {Role::attention_norm_weight, "model.layers.{}.input_layernorm.weight"},
    {Role::query_weight, "model.layers.{}.self_attn.q_proj.weight"},
    {Role::query_bias, "model.layers.{}.self_attn.q_proj.bias"},
    {Role::query_norm_weight, "model.layers.{}.self_attn.q_norm.weight"},
    {Role::key_weight, "model.layers.{}.self_attn.k_proj.weight"},
    {Role::key_bias, "model.layers.{}.self_attn.k_proj.bias"},
    {Role::key_norm_weight, "model.layers.{}.self_attn.k_norm.weight"},
    {Role::value_weight, "model.layers.{}.self_attn.v_proj.weight"},
    {Role::value_bias, "model.layers.{}.self_attn.v_proj.bias"},
    {Role::attention_output_weight, "model.layers.{}.self_attn.o_proj.weight"},
    {Role::attention_output_bias, "model.layers.{}.self_attn.o_proj.bias"},
    {Role::ffn_norm_weight, "model.layers.{}.post_attention_layernorm.weight"},
    {Role::ffn_gate_weight, "model.layers.{}.mlp.gate_proj.weight"},
    {Role::ffn_gate_bias, "model.layers.{}.mlp.gate_proj.bias"},
    {Role::ffn_up_weight, "model.layers.{}.mlp.up_proj.weight"},
    {Role::ffn_up_bias, "model.layers.{}.mlp.up_proj.bias"},
    {Role::ffn_down_weight, "model.layers.{}.mlp.down_proj.weight"},
    {Role::ffn_down_bias, "model.layers.{}.mlp.down_proj.bias"},
};

constexpr Place mixtral_places[] = {
    {Role::router_weight, "model.layers.{}.block_sparse_moe.gate.weight"},
    {Role::expert_gate_weight, "model.layers.{}.block_sparse_moe.experts.{}.w1.weight"},
    {Role::expert_up_weight, "model.layers.{}.block_sparse_moe.experts.{}.w3.weight"},
    {Role::expert_down_weight, "model.layers.{}.block_sparse_moe.experts.{}.w2.weight"},
};

constexpr Place qwen_moe_places[] = {
    {Role::router_weight, "model.layers.{}.mlp.gate.weight"},
    {Role::expert_gate_weight, "model.layers.{}.mlp.experts.{}.gate_proj.weight"},
    {Role::expert_up_weight, "model.layers.{}.mlp.experts.{}.up_proj.weight"},
    {Role::expert_down_weight, "model.layers.{}.mlp.experts.{}.down_proj.weight"},
};

// Those of Qwen2-MoE alone: one network, which has a dense layer's roles.
constexpr Place shared_expert_places[] = {
    {Role::shared_gate_weight, "model.layers.{}.mlp.shared_expert_gate.weight"},
    {Role::ffn_gate_weight, "model.layers.{}.mlp.shared_expert.gate_proj.weight"},
    {Role::ffn_up_weight, "model.layers.{}.mlp.shared_expert.up_proj.weight"},
    {Role::ffn_down_weight, "model.layers.{}.mlp.shared_expert.down_proj.weight"},
};

// Of a block, the places that come first.
std::vector<std::span<const Place>> places_of(HuggingfaceType type, bool with_experts) {
  if (type == HuggingfaceType::gpt2) return {gpt2_places};
  if (!with_experts) return {llama_places};
  if (type == HuggingfaceType::mixtral) return {mixtral_places, llama_places};
  return {shared_expert_places, qwen_moe_places, llama_places};
}

HuggingfaceTensor place_of(const std::vector<std::span<const Place>>& lists, Role role, std::int64_t layer,
                           std::optional<std::int64_t> expert) {
  for (const std::span<const Place> places : lists) {
    const auto place = std::ranges::find(places, role, &Place::role);
    if (place == places.end()) continue;
    return {fmt::format(fmt::runtime(place->name), layer, expert.value_or(0)),
            {},
            place->storage == Storage::transposed,
            expert};
  }
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
  if (expert) return {whole.begin() + 1, whole.end()};
  whole.front() = 0;
  for (const std::size_t parameter : parameters) whole.front() += graph.parameters[parameter].shape.front();
  if (transposed) std::swap(whole.front(), whole.back());
  return whole;
}

std::vector<HuggingfaceTensor> huggingface_tensors(const Graph& graph, HuggingfaceType type) {
  std::vector<HuggingfaceTensor> tensors;
  for (const Block& block : graph.blocks) {
    // Block by block, since only parameters of one block share a tensor.
    std::vector<HuggingfaceTensor> of_block;
    const auto places = places_of(type, block.layer >= 0 && has_experts(graph.model, block.layer));
    for (const std::size_t index : block.parameters) {
      const Parameter& parameter = graph.parameters[index];
      if (parameter.adapts) continue;
      if (!parameter.has_expert_axis) add(of_block, place_of(places, parameter.role, block.layer, std::nullopt), index);
      for (std::int64_t expert = 0; parameter.has_expert_axis && expert < parameter.shape.front(); ++expert)
        add(of_block, place_of(places, parameter.role, block.layer, expert), index);
    }
    tensors.insert(tensors.end(), of_block.begin(), of_block.end());
  }
  return tensors;
}

std::string without_model_prefix(std::string_view name, HuggingfaceType type) {
  const std::string_view prefix = type == HuggingfaceType::gpt2 ? "transformer." : "model.";
  return std::string(name.starts_with(prefix) ? name.substr(prefix.size()) : name);
}

}  // namespace llmtrain
