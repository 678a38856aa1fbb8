// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The model types of transformers that recipe keys can express. Mistral is Llama without biases, qwen2 has biases of
// query, key and value, qwen3 norms of query and key. mixtral is Mistral with experts in every layer, qwen3_moe is
// Qwen3 with experts, and qwen2_moe Qwen2 with experts and shared ones that have a gate.
// deepseek_v2 and deepseek_v3 have latent attention, gpt_oss and gemma3_text local layers, qwen3_next and nemotron_h
// layers of linear attention: they can be planned. bert, roberta and xlm_roberta are encoders, of which the last two
// are the same model; bart and t5 have a decoder, too, and vit reads images.
enum class HuggingfaceType {
  gpt2,
  llama,
  mistral,
  qwen2,
  qwen3,
  mixtral,
  qwen3_moe,
  qwen2_moe,
  deepseek_v2,
  deepseek_v3,
  gpt_oss,
  gemma3_text,
  qwen3_next,
  nemotron_h,
  bert,
  roberta,
  xlm_roberta,
  bart,
  t5,
  vit
};

struct HuggingfaceNames {
  HuggingfaceType type;
  std::string_view model_type;  // in config.json
  std::string_view class_name;
};

// In the order of the enumeration.
inline constexpr std::array<HuggingfaceNames, 20> huggingface_names{
    {{HuggingfaceType::gpt2, "gpt2", "GPT2LMHeadModel"},
     {HuggingfaceType::llama, "llama", "LlamaForCausalLM"},
     {HuggingfaceType::mistral, "mistral", "MistralForCausalLM"},
     {HuggingfaceType::qwen2, "qwen2", "Qwen2ForCausalLM"},
     {HuggingfaceType::qwen3, "qwen3", "Qwen3ForCausalLM"},
     {HuggingfaceType::mixtral, "mixtral", "MixtralForCausalLM"},
     {HuggingfaceType::qwen3_moe, "qwen3_moe", "Qwen3MoeForCausalLM"},
     {HuggingfaceType::qwen2_moe, "qwen2_moe", "Qwen2MoeForCausalLM"},
     {HuggingfaceType::deepseek_v2, "deepseek_v2", "DeepseekV2ForCausalLM"},
     {HuggingfaceType::deepseek_v3, "deepseek_v3", "DeepseekV3ForCausalLM"},
     {HuggingfaceType::gpt_oss, "gpt_oss", "GptOssForCausalLM"},
     {HuggingfaceType::gemma3_text, "gemma3_text", "Gemma3ForCausalLM"},
     {HuggingfaceType::qwen3_next, "qwen3_next", "Qwen3NextForCausalLM"},
     {HuggingfaceType::nemotron_h, "nemotron_h", "NemotronHForCausalLM"},
     {HuggingfaceType::bert, "bert", "BertForMaskedLM"},
     {HuggingfaceType::roberta, "roberta", "RobertaForMaskedLM"},
     {HuggingfaceType::xlm_roberta, "xlm-roberta", "XLMRobertaForMaskedLM"},
     {HuggingfaceType::bart, "bart", "BartForConditionalGeneration"},
     {HuggingfaceType::t5, "t5", "T5ForConditionalGeneration"},
     {HuggingfaceType::vit, "vit", "ViTForImageClassification"}}};

constexpr bool is_qwen(HuggingfaceType type) {
  return type == HuggingfaceType::qwen2 || type == HuggingfaceType::qwen3 || type == HuggingfaceType::qwen3_moe ||
         type == HuggingfaceType::qwen2_moe;
}

constexpr bool is_deepseek(HuggingfaceType type) {
  return type == HuggingfaceType::deepseek_v2 || type == HuggingfaceType::deepseek_v3;
}

constexpr bool is_encoder(HuggingfaceType type) {
  return type == HuggingfaceType::bert || type == HuggingfaceType::roberta || type == HuggingfaceType::xlm_roberta;
}

constexpr bool is_encoder_decoder(HuggingfaceType type) {
  return type == HuggingfaceType::bart || type == HuggingfaceType::t5;
}

constexpr bool is_image_classifier(HuggingfaceType type) { return type == HuggingfaceType::vit; }

constexpr bool has_experts(HuggingfaceType type) {
  return type == HuggingfaceType::mixtral || type == HuggingfaceType::qwen3_moe || type == HuggingfaceType::qwen2_moe;
}

// The config.json of a Hugging Face folder as recipe keys: gpt2, llama, and those members of the Llama family that
// recipe keys can express, bert, roberta, bart, t5 and vit. Throws Error(missing_input), and Error(bad_data) that names
// everything that recipe keys cannot express.
ModelRecipe model_recipe_from_huggingface(const std::filesystem::path& folder);

// How many tokens each token attends to, itself included, in a model of one of the types mistral, mixtral and Qwen's
// that limits them: model_recipe_from_huggingface()'s has that window, or no sequence that exceeds it. None without
// one, and without a config.json. Throws what that does.
std::optional<std::int64_t> huggingface_window(const std::filesystem::path& folder);

// What the config.json of such a folder says of the training of experts and no recipe key means: a sentence each, which
// begins with the file and the key. Throws Error(missing_input) and Error(bad_data).
std::vector<std::string> huggingface_training_notes(const std::filesystem::path& folder);

}  // namespace llmtrain
