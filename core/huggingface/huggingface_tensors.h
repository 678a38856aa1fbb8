// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The model types of transformers that recipe keys can express. Mistral is Llama without biases, qwen2 has biases of
// query, key and value, qwen3 norms of query and key.
enum class HuggingfaceType { gpt2, llama, mistral, qwen2, qwen3 };

struct HuggingfaceNames {
  HuggingfaceType type;
  std::string_view model_type;  // in config.json
  std::string_view class_name;
};

// In the order of the enumeration.
inline constexpr std::array<HuggingfaceNames, 5> huggingface_names{
    {{HuggingfaceType::gpt2, "gpt2", "GPT2LMHeadModel"},
     {HuggingfaceType::llama, "llama", "LlamaForCausalLM"},
     {HuggingfaceType::mistral, "mistral", "MistralForCausalLM"},
     {HuggingfaceType::qwen2, "qwen2", "Qwen2ForCausalLM"},
     {HuggingfaceType::qwen3, "qwen3", "Qwen3ForCausalLM"}}};

// The type that a model can be exported as. Throws Error(bad_recipe) that names the keys which no type supports.
HuggingfaceType huggingface_type_of(const ModelRecipe& model);

// A tensor of transformers and its content: parameters of the Graph, concatenated along their first axis (GPT-2 keeps
// query, key and value in one), then transposed where GPT-2 keeps weights as [input, output].
struct HuggingfaceTensor {
  std::string name;
  std::vector<std::size_t> parameters;  // indices into Graph::parameters
  bool transposed = false;

  std::vector<std::int64_t> shape(const Graph& graph) const;
};

// All tensors of a model, in the order of the Graph.
std::vector<HuggingfaceTensor> huggingface_tensors(const Graph& graph, HuggingfaceType type);

// The name without the prefix of the whole model ("transformer.", "model."), which older files lack.
std::string without_model_prefix(std::string_view name, HuggingfaceType type);

}  // namespace llmtrain
