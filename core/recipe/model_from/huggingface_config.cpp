// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/huggingface_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/json_file.h"
#include "core/recipe/model_from/config_reader.h"
#include "core/recipe/model_from/huggingface_deepseek.h"
#include "core/recipe/model_from/huggingface_encoder.h"
#include "core/recipe/model_from/huggingface_encoder_decoder.h"
#include "core/recipe/model_from/huggingface_experts.h"
#include "core/recipe/model_from/huggingface_hybrid.h"
#include "core/recipe/model_from/huggingface_image_classifier.h"
#include "core/recipe/model_from/huggingface_local.h"
#include "core/recipe/model_from/huggingface_rope.h"

namespace llmtrain {
namespace {

using JsonValue = nlohmann::json;

std::int64_t per_head(ConfigReader& reader, const std::string& heads_key, const ModelRecipe& model) {
  if (model.hidden_size % model.heads != 0)
    reader.problem(heads_key, "is " + std::to_string(model.heads) + ", which does not divide the width " +
                                  std::to_string(model.hidden_size));
  return model.hidden_size / model.heads;
}

Activation gpt2_activation(ConfigReader& reader) {
  const std::string name = reader.text("activation_function", "gelu_new");
  if (name == "gelu") return Activation::gelu;
  // Three spellings of the same formula.
  if (name != "gelu_new" && name != "gelu_fast" && name != "gelu_pytorch_tanh")
    reader.problem("activation_function", "is " + quoted_text(name) + "; gelu or gelu_new is needed");
  return Activation::gelu_tanh;
}

ModelRecipe read_gpt2(ConfigReader& reader) {
  ModelRecipe model;
  model.architecture = Architecture::gpt2;
  model.layers = reader.size("n_layer");
  model.hidden_size = reader.size("n_embd");
  model.heads = model.kv_heads = reader.size("n_head");
  model.head_dim = per_head(reader, "n_head", model);
  // null means four times the width.
  model.ffn_hidden_size = reader.size("n_inner", 4 * model.hidden_size);
  model.vocab_size = reader.size("vocab_size");
  model.max_sequence_length = reader.size("n_positions");
  model.activation = gpt2_activation(reader);
  model.norm = NormKind::layernorm;
  model.norm_eps = reader.number("layer_norm_epsilon", 1e-5);
  model.position = Position::learned;
  model.set_biases(true);
  model.tie_embeddings = reader.boolean("tie_word_embeddings", true);
  model.init_std = reader.number("initializer_range", 0.02);
  // Variants of attention that transformers' GPT-2 offers and this program does not.
  reader.require("scale_attn_weights", true, true);
  reader.require("scale_attn_by_inverse_layer_idx", false, false);
  reader.require("add_cross_attention", false, false);
  return model;
}

// How far attention reaches in models that may have a window, also where no sequence is longer.
std::optional<std::int64_t> read_window(ConfigReader& reader, HuggingfaceType type) {
  const bool always = type == HuggingfaceType::mistral || type == HuggingfaceType::mixtral;
  if (!always && !(is_qwen(type) && reader.boolean("use_sliding_window", false))) return std::nullopt;
  // Mistral's default, which null switches off.
  if (type == HuggingfaceType::mistral && !reader.holds("sliding_window")) return 4096;
  if (reader.get("sliding_window") == nullptr) return std::nullopt;
  return reader.size("sliding_window");
}

// A window that no sequence exceeds has no effect. All layers of Mistral and Mixtral have it, of Qwen's those from
// max_window_layers on.
void read_sliding_window(ConfigReader& reader, HuggingfaceType type, ModelRecipe& model) {
  const std::optional<std::int64_t> window = read_window(reader, type);
  if (window && *window < model.max_sequence_length) {
    if (is_qwen(type))
      reader.problem("sliding_window", "is " + std::to_string(*window) +
                                           ", less than /max_position_embeddings; windows of the last layers alone are "
                                           "not supported");
    model.sliding_window = SlidingWindowRecipe{.tokens = *window, .rope_theta = model.rope_theta};
  }
  const bool can_slide = type == HuggingfaceType::mistral || type == HuggingfaceType::mixtral || window;
  const JsonValue* layers = reader.get("layer_types");
  if (layers == nullptr || can_slide) return;
  for (const JsonValue& layer : *layers)
    if (layer != "full_attention") {
      reader.problem("layer_types", "has " + ConfigReader::shown(layer) + "; only full attention is supported");
      return;
    }
}

bool has_head_norms(HuggingfaceType type) {
  return type == HuggingfaceType::qwen3 || type == HuggingfaceType::qwen3_moe;
}

void read_biases(ConfigReader& reader, HuggingfaceType type, ModelRecipe& model) {
  model.set_biases(false);
  // qwen2 always has these biases and no key for them, and none in the output projection.
  if (type == HuggingfaceType::qwen2) model.qkv_bias = true;
  if (type == HuggingfaceType::qwen2_moe) model.qkv_bias = reader.boolean("qkv_bias", true);
  if (type == HuggingfaceType::llama) model.bias = reader.boolean("mlp_bias", false);
  if (type == HuggingfaceType::llama || has_head_norms(type))
    model.qkv_bias = model.attention_output_bias = reader.boolean("attention_bias", false);
}

void read_heads(ConfigReader& reader, HuggingfaceType type, ModelRecipe& model) {
  // In other types a missing key means a fixed number, which no saved model relies on, so the key is required.
  std::optional<std::int64_t> otherwise;
  if (type == HuggingfaceType::llama) otherwise = model.heads;
  model.kv_heads = reader.size("num_key_value_heads", otherwise);
  if (reader.get("head_dim") != nullptr)
    model.head_dim = reader.size("head_dim");
  else
    // qwen3's default, whatever the width.
    model.head_dim = type == HuggingfaceType::qwen3 ? 128 : per_head(reader, "num_attention_heads", model);
}

ModelRecipe read_llama_family(ConfigReader& reader, HuggingfaceType type) {
  ModelRecipe model;
  model.architecture = Architecture::llama;
  model.layers = reader.size("num_hidden_layers");
  model.hidden_size = reader.size("hidden_size");
  model.heads = reader.size("num_attention_heads");
  read_heads(reader, type, model);
  model.ffn_hidden_size = reader.size("intermediate_size");
  model.vocab_size = reader.size("vocab_size");
  model.max_sequence_length = reader.size("max_position_embeddings");
  model.activation = Activation::swiglu;
  if (reader.text("hidden_act", "silu") != "silu")
    reader.problem("hidden_act", "is " + quoted_text(reader.text("hidden_act", "")) + "; silu is needed");
  model.norm = NormKind::rmsnorm;
  model.norm_eps = reader.number("rms_norm_eps", type == HuggingfaceType::mixtral ? 1e-5 : 1e-6);
  model.position = Position::rope;
  read_rope(reader, model, type == HuggingfaceType::mixtral ? 1e6 : 10000);
  read_biases(reader, type, model);
  model.qk_norm = has_head_norms(type);
  model.tie_embeddings = reader.boolean("tie_word_embeddings", false);
  model.init_std = reader.number("initializer_range", 0.02);
  if (has_experts(type)) model.moe = read_experts(reader, type, model);
  read_sliding_window(reader, type, model);
  return model;
}

ModelRecipe read_model(ConfigReader& reader, HuggingfaceType type) {
  if (type == HuggingfaceType::gpt2) return read_gpt2(reader);
  if (is_deepseek(type)) return read_deepseek(reader, type);
  if (is_encoder(type)) return read_encoder(reader, type);
  if (type == HuggingfaceType::bart) return read_bart(reader);
  if (type == HuggingfaceType::t5) return read_t5(reader);
  if (type == HuggingfaceType::vit) return read_vit(reader);
  if (type == HuggingfaceType::gpt_oss) return read_gpt_oss(reader);
  if (type == HuggingfaceType::gemma3_text) return read_gemma3(reader);
  if (type == HuggingfaceType::qwen3_next) return read_qwen3_next(reader);
  if (type == HuggingfaceType::nemotron_h) return read_nemotron_h(reader);
  return read_llama_family(reader, type);
}

std::optional<HuggingfaceType> read_type(ConfigReader& reader) {
  const std::string name = reader.text("model_type", "");
  const auto names = std::ranges::find(huggingface_names, name, &HuggingfaceNames::model_type);
  if (names != huggingface_names.end()) return names->type;
  if (name == "resnet") {
    reader.problem("model_type",
                   "is \"resnet\", which has batch norms; those of model.resnet are group norms, so its "
                   "weights cannot be read");
    return std::nullopt;
  }
  reader.problem("model_type", "is " + quoted_text(name) +
                                   "; gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, qwen2_moe, deepseek_v2, "
                                   "deepseek_v3, gpt_oss, gemma3_text, qwen3_next, nemotron_h, bert, roberta, "
                                   "xlm-roberta, bart, t5 and vit can be read");
  return std::nullopt;
}

JsonValue read_config(const std::filesystem::path& folder, const std::string& file) {
  std::error_code unknown;
  if (!std::filesystem::exists(folder, unknown))
    throw Error(ExitCode::missing_input,
                folder.string() + ": does not exist; a model of Hugging Face's hub is downloaded to a folder with " +
                    "`hf download ORGANIZATION/NAME --local-dir FOLDER`");
  auto config = parse_json<JsonValue>(read_text_file(file), file);
  if (!config.is_object())
    throw Error(ExitCode::bad_data, file + ": is not a JSON object; a config.json of transformers is needed");
  return config;
}

}  // namespace

ModelRecipe model_recipe_from_huggingface(const std::filesystem::path& folder) {
  const std::string file = (folder / "config.json").string();
  const JsonValue config = read_config(folder, file);
  ConfigReader reader(config, file);
  ModelRecipe model;
  if (const auto type = read_type(reader)) model = read_model(reader, *type);
  reader.finish();
  return model;
}

std::optional<std::int64_t> huggingface_window(const std::filesystem::path& folder) {
  const std::string file = (folder / "config.json").string();
  if (!path_exists(file)) return std::nullopt;
  const JsonValue config = read_config(folder, file);
  ConfigReader reader(config, file);
  const auto type = read_type(reader);
  const std::optional<std::int64_t> window = type ? read_window(reader, *type) : std::nullopt;
  reader.finish();
  return window;
}

std::vector<std::string> huggingface_training_notes(const std::filesystem::path& folder) {
  const std::string file = (folder / "config.json").string();
  const JsonValue config = read_config(folder, file);
  ConfigReader reader(config, file);
  std::vector<std::string> notes;
  const double jitter = reader.number("router_jitter_noise", 0), balance = reader.number("router_aux_loss_coef", 0.001);
  if (jitter > 0)
    notes.push_back(file + ": /router_jitter_noise: is " + JsonValue(jitter).dump() +
                    ", of what routers and experts see; model.moe.jitter, of what routers see, stays 0");
  if (config.contains("router_aux_loss_coef") && balance > 0 && reader.boolean("output_router_logits", false))
    notes.push_back(file + ": /router_aux_loss_coef: is " + JsonValue(balance).dump() +
                    ", of a loss over all choices and all layers together; model.moe.balance_coefficient, of GShard's "
                    "loss in each layer, stays " +
                    JsonValue(MixtureOfExpertsRecipe().balance_coefficient).dump());
  reader.finish();
  return notes;
}

}  // namespace llmtrain
