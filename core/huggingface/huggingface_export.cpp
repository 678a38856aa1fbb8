// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "core/base/error.h"
#include "core/huggingface/huggingface_config.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

using Json = nlohmann::ordered_json;

// Collects the keys of a model that an architecture of transformers does not support.
class Requirements {
 public:
  Requirements(const ModelRecipe& model, std::string architecture) : architecture_(std::move(architecture)) {
    Recipe recipe;
    recipe.model = model;
    keys_ = to_json(recipe)["model"];
  }

  void require(bool holds, const std::string& key, const std::string& rule) {
    if (holds) return;
    problems_.append(problems_.empty() ? "" : "\n")
        .append("/model/" + key + ": is " + keys_[key].dump() + "; " + architecture_ + " of transformers has " + rule +
                ", so this model cannot be exported");
  }

  void finish() const {
    if (!problems_.empty()) throw Error(ExitCode::bad_recipe, problems_);
  }

 private:
  std::string architecture_;
  Json keys_;
  std::string problems_;
};

void require_gpt2(const ModelRecipe& model) {
  Requirements gpt2(model, "GPT-2, the architecture with learned positions,");
  gpt2.require(model.norm == NormKind::layernorm, "norm", "layernorm");
  gpt2.require(model.activation != Activation::swiglu, "activation", "gelu or gelu_tanh");
  gpt2.require(model.bias, "bias", "biases");
  gpt2.require(model.qkv_bias, "qkv_bias", "biases");
  gpt2.require(!model.qk_norm, "qk_norm", "no norms of queries and keys");
  gpt2.require(model.kv_heads == model.heads, "kv_heads", "as many as heads");
  gpt2.require(model.head_dim * model.heads == model.hidden_size, "head_dim", "hidden_size / heads");
  gpt2.require(!model.moe, "moe", "no experts");
  gpt2.finish();
}

void require_llama_family(const ModelRecipe& model) {
  Requirements family(model, "the Llama family, the architectures with rotary positions,");
  family.require(model.norm == NormKind::rmsnorm, "norm", "rmsnorm");
  family.require(model.activation == Activation::swiglu, "activation", "swiglu");
  family.require(!model.moe, "moe", "no experts");
  family.finish();
}

void require_biases(const ModelRecipe& model) {
  Requirements qwen3(model, "Qwen3, the architecture with norms of queries and keys,");
  Requirements llama(model, "Llama");
  if (model.qk_norm) {
    qwen3.require(!model.bias, "bias", "none");
    qwen3.require(!model.qkv_bias, "qkv_bias", "none");
  } else {
    llama.require(!model.bias || model.qkv_bias, "qkv_bias", "biases there, too, where it has others");
    // transformers checks this for Llama only; Mistral and Qwen accept any head_dim.
    llama.require(!model.bias || model.hidden_size % model.heads == 0, "heads", "a number that divides hidden_size");
  }
  qwen3.finish();
  llama.finish();
}

// The end-of-text token depends on the tokenizer, which a model does not know, but a vocabulary of this size is
// GPT-2's, as it is or padded.
Json end_of_text(const ModelRecipe& model, HuggingfaceType type) {
  constexpr std::int64_t gpt2_vocabulary = 50257;
  constexpr std::int64_t padded = 50304;
  const bool is_gpt2 =
      type == HuggingfaceType::gpt2 && model.vocab_size >= gpt2_vocabulary && model.vocab_size <= padded;
  return is_gpt2 ? Json(gpt2_vocabulary - 1) : Json();
}

std::string class_name(HuggingfaceType type) {
  switch (type) {
    case HuggingfaceType::gpt2:
      return "GPT2LMHeadModel";
    case HuggingfaceType::llama:
      return "LlamaForCausalLM";
    case HuggingfaceType::mistral:
      return "MistralForCausalLM";
    case HuggingfaceType::qwen2:
      return "Qwen2ForCausalLM";
    case HuggingfaceType::qwen3:
      return "Qwen3ForCausalLM";
  }
  throw Error(ExitCode::internal_error, "an unknown model type of transformers");
}

void add_gpt2(Json& config, const ModelRecipe& model) {
  config["n_layer"] = model.layers;
  config["n_embd"] = model.hidden_size;
  config["n_head"] = model.heads;
  config["n_inner"] = model.ffn_hidden_size;
  config["n_positions"] = model.max_sequence_length;
  config["activation_function"] = model.activation == Activation::gelu ? "gelu" : "gelu_new";
  config["layer_norm_epsilon"] = model.norm_eps;
  // One probability for all three places, as in our models.
  for (const std::string key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) config[key] = model.dropout;
}

void add_llama_family(Json& config, const ModelRecipe& model) {
  config["num_hidden_layers"] = model.layers;
  config["hidden_size"] = model.hidden_size;
  config["num_attention_heads"] = model.heads;
  config["num_key_value_heads"] = model.kv_heads;
  config["head_dim"] = model.head_dim;
  config["intermediate_size"] = model.ffn_hidden_size;
  config["max_position_embeddings"] = model.max_sequence_length;
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = model.norm_eps;
  // transformers 4 reads the first, 5 the second.
  config["rope_theta"] = model.rope_theta;
  config["rope_parameters"] = {{"rope_theta", model.rope_theta}, {"rope_type", "default"}};
  // Llama has a key for dropout in attention only; our dropout has more places, and inference has none.
  config["attention_dropout"] = 0.0;
}

void add_type_keys(Json& config, const ModelRecipe& model, HuggingfaceType type) {
  if (type == HuggingfaceType::llama) config["attention_bias"] = config["mlp_bias"] = model.bias;
  if (type == HuggingfaceType::qwen3) config["attention_bias"] = false;
  if (type == HuggingfaceType::qwen2 || type == HuggingfaceType::qwen3) config["use_sliding_window"] = false;
  if (type != HuggingfaceType::llama) config["sliding_window"] = nullptr;
}

}  // namespace

HuggingfaceType huggingface_type_of(const ModelRecipe& model) {
  if (model.position == Position::learned) {
    require_gpt2(model);
    return HuggingfaceType::gpt2;
  }
  require_llama_family(model);
  require_biases(model);
  if (model.qk_norm) return HuggingfaceType::qwen3;
  if (model.qkv_bias && !model.bias) return HuggingfaceType::qwen2;
  // Mistral has the same tensors and does not require heads to divide hidden_size.
  const bool llama_takes_it = model.hidden_size % model.heads == 0;
  return llama_takes_it ? HuggingfaceType::llama : HuggingfaceType::mistral;
}

Json huggingface_config_of(const ModelRecipe& model, HuggingfaceType type, const std::string& dtype) {
  Json config;
  config["architectures"] = {class_name(type)};
  config["model_type"] = huggingface_type_name(type);
  config["vocab_size"] = model.vocab_size;
  if (type == HuggingfaceType::gpt2) {
    add_gpt2(config, model);
  } else {
    add_llama_family(config, model);
    add_type_keys(config, model, type);
  }
  config["tie_word_embeddings"] = model.tie_embeddings;
  config["initializer_range"] = model.init_std;
  config["bos_token_id"] = config["eos_token_id"] = end_of_text(model, type);
  // transformers 4 reads "torch_dtype", 5 reads "dtype".
  config["dtype"] = config["torch_dtype"] = dtype;
  config["use_cache"] = true;
  return config;
}

}  // namespace llmtrain
