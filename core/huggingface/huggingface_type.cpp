// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/huggingface/huggingface.h"
#include "core/json/json_text.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

struct Requirement {
  bool holds;
  std::string key;
  std::string rule;
};

// Throws Error(bad_recipe) that names every key of a model that an architecture of transformers does not support.
void require(const ModelRecipe& model, const std::string& architecture, const std::vector<Requirement>& requirements) {
  Recipe recipe;
  recipe.model = model;
  const Json keys = to_json(recipe)["model"];
  std::string problems;
  for (const auto& [holds, key, rule] : requirements)
    if (!holds)
      problems += fmt::format("{}/model/{}: is {}; {} of transformers has {}, so this model cannot be exported",
                              problems.empty() ? "" : "\n", key, keys.at(Json::json_pointer("/" + key)).dump(),
                              architecture, rule);
  if (!problems.empty()) throw Error(ExitCode::bad_recipe, problems);
}

// Models of the Llama family with experts differ in what else they have: Qwen3-MoE norms of queries and keys, Qwen2-MoE
// shared experts, and Mixtral neither.
HuggingfaceType type_with_experts(const ModelRecipe& model) {
  if (model.qk_norm) return HuggingfaceType::qwen3_moe;
  return model.moe->shared_experts > 0 ? HuggingfaceType::qwen2_moe : HuggingfaceType::mixtral;
}

bool has_biases(const ModelRecipe& model) { return model.bias || model.qkv_bias || model.attention_output_bias; }

// Mistral and Mixtral, whose windows are of all layers, have neither biases nor norms of queries and keys.
bool has_their_window(const ModelRecipe& model) {
  if (!model.sliding_window) return true;
  const SlidingWindowRecipe& window = *model.sliding_window;
  const bool is_theirs =
      model.moe ? type_with_experts(model) == HuggingfaceType::mixtral : !model.qk_norm && !has_biases(model);
  return is_theirs && window.global_every == 0 && window.rope_theta == model.rope_theta &&
         (window.rope_scaling || !model.rope_scaling);
}

// What no architecture that is written has.
void require_plain_attention(const ModelRecipe& model, const std::string& architecture) {
  require(model, architecture,
          {{!model.attention_scale, "attention_scale", "1 ÷ √head_dim"},
           {!model.attention_sinks, "attention_sinks", "none"},
           {model.parallel_residual == ParallelResidual::none, "parallel_residual", "halves one after the other"},
           {!model.post_norms, "post_norms", "none"},
           {model.embedding_scale == 1, "embedding_scale", "embeddings as they are"},
           {model.position != Position::none, "position", "positions"},
           {model.position != Position::learned || !model.sliding_window, "sliding_window", "none"},
           {model.position == Position::learned || has_their_window(model), "sliding_window",
            "windows in all layers of models without biases and norms of queries and keys alone"}});
}

// "attention_bias" of Llama and Qwen3 is of all four projections.
constexpr const char* same_biases = "one where query, key and value have them, and none elsewhere";
bool has_one_attention_bias(const ModelRecipe& model) { return model.qkv_bias == model.attention_output_bias; }

// Whether a model without experts, and without norms of queries and keys, is one.
bool is_qwen2(const ModelRecipe& model) { return model.qkv_bias && !model.attention_output_bias && !model.bias; }

void require_gpt2(const ModelRecipe& model) {
  require_plain_attention(model, "GPT-2, the architecture with learned positions,");
  require(model, "GPT-2, the architecture with learned positions,",
          {{model.norm == NormKind::layernorm, "norm", "layernorm"},
           {model.activation == Activation::gelu || model.activation == Activation::gelu_tanh, "activation",
            "gelu or gelu_tanh"},
           {model.bias, "bias", "biases"},
           {model.qkv_bias, "qkv_bias", "biases"},
           {model.attention_output_bias, "attention_output_bias", "a bias"},
           {!model.qk_norm, "qk_norm", "no norms of queries and keys"},
           {model.kv_heads == model.heads, "kv_heads", "as many as heads"},
           {model.head_dim * model.heads == model.hidden_size, "head_dim", "hidden_size / heads"},
           {!model.moe, "moe", "no experts"}});
}

void require_experts(const ModelRecipe& model) {
  const MixtureOfExpertsRecipe& moe = *model.moe;
  const HuggingfaceType type = type_with_experts(model);
  if (type == HuggingfaceType::qwen2_moe) {
    require(model, "Qwen2-MoE, the architecture with shared experts,",
            {{!model.bias, "bias", "none"},
             {!model.attention_output_bias, "attention_output_bias", "none"},
             {moe.router == Router::linear, "moe/router", "a linear router"},
             {moe.shared_gate, "moe/shared_gate", "a gate"}});
    return;
  }
  const bool is_mixtral = type == HuggingfaceType::mixtral;
  require(model, is_mixtral ? "Mixtral" : "Qwen3-MoE",
          {{!model.bias, "bias", "none"},
           {!is_mixtral || !model.qkv_bias, "qkv_bias", "none"},
           {!is_mixtral || !model.attention_output_bias, "attention_output_bias", "none"},
           {is_mixtral || has_one_attention_bias(model), "attention_output_bias", same_biases},
           {moe.router == Router::linear, "moe/router", "a linear router"},
           {moe.shared_experts == 0, "moe/shared_experts", "none"},
           {!is_mixtral || moe.normalize_gates, "moe/normalize_gates", "normalized gates"},
           {!is_mixtral || moe.dense_layers == 0, "moe/dense_layers", "experts in every layer"},
           {!is_mixtral || moe.every == 1, "moe/every", "experts in every layer"}});
}

void require_llama_family(const ModelRecipe& model) {
  require_plain_attention(model, "the Llama family, the architectures with rotary positions,");
  require(model, "the Llama family, the architectures with rotary positions,",
          {{model.norm == NormKind::rmsnorm, "norm", "rmsnorm"},
           {model.activation == Activation::swiglu, "activation", "swiglu"}});
  if (model.moe) return require_experts(model);
  if (model.qk_norm) {
    require(model, "Qwen3, the architecture with norms of queries and keys,",
            {{!model.bias, "bias", "none"}, {has_one_attention_bias(model), "attention_output_bias", same_biases}});
    return;
  }
  if (is_qwen2(model)) return;
  require(model, "Llama",
          {{has_one_attention_bias(model), "attention_output_bias", same_biases},
           // transformers checks this for Llama only; Mistral and Qwen accept any head_dim.
           {!has_biases(model) || model.hidden_size % model.heads == 0, "heads", "a number that divides hidden_size"}});
}

}  // namespace

HuggingfaceType huggingface_type_of(const ModelRecipe& model) {
  if (model.architecture == Architecture::bart) return HuggingfaceType::bart;
  if (model.architecture == Architecture::t5) {
    require(model, "T5", {{model.activation != Activation::geglu, "activation", "gated gelus by tanh alone"}});
    return HuggingfaceType::t5;
  }
  if (model.architecture == Architecture::resnet)
    require(model, "ResNetForImageClassification", {{false, "norm", "batch norms"}});
  if (is_image_classifier(model.architecture)) return HuggingfaceType::vit;
  if (is_encoder(model.architecture))
    return model.architecture == Architecture::bert ? HuggingfaceType::bert : HuggingfaceType::xlm_roberta;
  if (model.position == Position::learned) {
    require_gpt2(model);
    return HuggingfaceType::gpt2;
  }
  require_llama_family(model);
  if (model.moe) return type_with_experts(model);
  if (model.qk_norm) return HuggingfaceType::qwen3;
  if (is_qwen2(model)) return HuggingfaceType::qwen2;
  // Mistral has the same tensors, may have a window and does not require heads to divide hidden_size.
  const bool llama_takes_it = model.hidden_size % model.heads == 0 && !model.sliding_window;
  return llama_takes_it ? HuggingfaceType::llama : HuggingfaceType::mistral;
}

}  // namespace llmtrain
