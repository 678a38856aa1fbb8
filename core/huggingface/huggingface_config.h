// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The model types of transformers that recipe keys can express. Mistral is Llama without biases, qwen2 has biases of
// query, key and value, qwen3 norms of query and key.
enum class HuggingfaceType { gpt2, llama, mistral, qwen2, qwen3 };

// The value of "model_type" in config.json.
std::string huggingface_type_name(HuggingfaceType type);

// A config.json as recipe keys, with the defaults of transformers 5; `file` is named in messages. Throws
// Error(bad_data) that names, one per line, everything that is missing or that recipe keys cannot express.
ModelRecipe model_from_huggingface_config(const nlohmann::json& config, const std::string& file);

// The type that a model can be exported as. Throws Error(bad_recipe) that names the keys which no type supports.
HuggingfaceType huggingface_type_of(const ModelRecipe& model);

// The config.json of a model, for transformers 4 and 5; `dtype` is PyTorch's name of the weights' type.
nlohmann::ordered_json huggingface_config_of(const ModelRecipe& model, HuggingfaceType type, const std::string& dtype);

}  // namespace llmtrain
