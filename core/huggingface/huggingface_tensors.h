// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The model types of transformers that recipe keys can express. Mistral is Llama without biases, qwen2 has biases of
// query, key and value, qwen3 norms of query and key. mixtral is Mistral with experts in every layer, qwen3_moe is
// Qwen3 with experts.
enum class HuggingfaceType { gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen3_moe };

struct HuggingfaceNames {
  HuggingfaceType type;
  std::string_view model_type;  // in config.json
  std::string_view class_name;
};

// In the order of the enumeration.
inline constexpr std::array<HuggingfaceNames, 7> huggingface_names{
    {{HuggingfaceType::gpt2, "gpt2", "GPT2LMHeadModel"},
     {HuggingfaceType::llama, "llama", "LlamaForCausalLM"},
     {HuggingfaceType::mistral, "mistral", "MistralForCausalLM"},
     {HuggingfaceType::qwen2, "qwen2", "Qwen2ForCausalLM"},
     {HuggingfaceType::qwen3, "qwen3", "Qwen3ForCausalLM"},
     {HuggingfaceType::mixtral, "mixtral", "MixtralForCausalLM"},
     {HuggingfaceType::qwen3_moe, "qwen3_moe", "Qwen3MoeForCausalLM"}}};

constexpr bool is_qwen(HuggingfaceType type) {
  return type == HuggingfaceType::qwen2 || type == HuggingfaceType::qwen3 || type == HuggingfaceType::qwen3_moe;
}

// The type that a model can be exported as. Throws Error(bad_recipe) that names the keys which no type supports.
HuggingfaceType huggingface_type_of(const ModelRecipe& model);

// A tensor of transformers and its content: parameters of the Graph, concatenated along their first axis (GPT-2 keeps
// query, key and value in one), then transposed where GPT-2 keeps weights as [input, output]. Of experts, which are one
// parameter here, each has a tensor of its own there.
struct HuggingfaceTensor {
  std::string name;
  std::vector<std::size_t> parameters;  // indices into Graph::parameters
  bool transposed = false;
  std::optional<std::int64_t> expert{};  // the index on the parameter's first axis, which the tensor lacks

  std::vector<std::int64_t> shape(const Graph& graph) const;
};

// All tensors of a model, in the order of the Graph.
std::vector<HuggingfaceTensor> huggingface_tensors(const Graph& graph, HuggingfaceType type);

// The name without the prefix of the whole model ("transformer.", "model."), which older files lack.
std::string without_model_prefix(std::string_view name, HuggingfaceType type);

}  // namespace llmtrain
