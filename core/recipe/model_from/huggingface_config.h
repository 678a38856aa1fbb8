// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <string_view>

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

// The config.json of a Hugging Face folder as recipe keys: gpt2, llama, and those members of the Llama family that
// recipe keys can express (mistral and mixtral without a sliding window). Throws Error(missing_input), and
// Error(bad_data) that names everything that recipe keys cannot express.
ModelRecipe model_recipe_from_huggingface(const std::filesystem::path& folder);

}  // namespace llmtrain
