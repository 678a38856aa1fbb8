// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/huggingface_hybrid.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/model_from/huggingface_experts.h"
#include "core/recipe/model_from/huggingface_rope.h"

namespace llmtrain {
namespace {

using JsonValue = nlohmann::json;

void read_hybrid_sizes(ConfigReader& reader, ModelRecipe& model) {
  model.architecture = Architecture::llama;
  model.hidden_size = reader.size("hidden_size");
  model.heads = reader.size("num_attention_heads");
  model.kv_heads = reader.size("num_key_value_heads", model.heads);
  model.ffn_hidden_size = reader.size("intermediate_size");
  model.vocab_size = reader.size("vocab_size");
  model.norm = NormKind::rmsnorm;
  model.tie_embeddings = reader.boolean("tie_word_embeddings", false);
  model.init_std = reader.number("initializer_range", 0.02);
}

// The shortest list that repeats into this one.
std::vector<std::string> repeated_part(const std::vector<std::string>& all) {
  for (std::size_t length = 1; length < all.size(); ++length) {
    bool repeats = all.size() % length == 0;
    for (std::size_t i = length; repeats && i < all.size(); ++i) repeats = all[i] == all[i % length];
    if (repeats) return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length)};
  }
  return all;
}

// Each layer's kind by its word in the file; a word that `meanings` lacks is a problem.
std::vector<std::string> read_kinds(ConfigReader& reader, const std::string& key, const JsonValue& words,
                                    const std::vector<std::pair<std::string, std::string>>& meanings) {
  std::vector<std::string> kinds;
  for (const JsonValue& word : words) {
    const auto found = std::ranges::find_if(meanings, [&](const auto& meaning) { return word == meaning.first; });
    if (found == meanings.end()) {
      reader.problem(key, "has " + ConfigReader::shown(word) + ", of which recipes know no kind of layer");
      return {"linear"};
    }
    kinds.push_back(found->second);
  }
  return kinds;
}

void read_qwen3_kinds(ConfigReader& reader, ModelRecipe& model) {
  const JsonValue* types = reader.get("layer_types");
  if (types != nullptr && types->is_array()) {
    const auto kinds =
        read_kinds(reader, "layer_types", *types, {{"linear_attention", "linear"}, {"full_attention", "attention"}});
    if (static_cast<std::int64_t>(kinds.size()) != model.layers)
      reader.problem("layer_types", "has to say of each layer what it is");
    model.layer_kinds = repeated_part(kinds);
    return;
  }
  const std::int64_t interval = reader.size("full_attention_interval", 4);
  model.layer_kinds.assign(static_cast<std::size_t>(std::min(interval, model.layers)), "linear");
  if (interval <= model.layers) model.layer_kinds.back() = "attention";
}

// A text of a letter for each layer, or a list of words, which transformers 5 writes.
void read_nemotron_kinds(ConfigReader& reader, ModelRecipe& model) {
  const JsonValue* types = reader.get("layers_block_type");
  JsonValue words = types != nullptr ? *types : JsonValue::array();
  std::string key = "layers_block_type";
  if (types == nullptr) {
    key = "hybrid_override_pattern";
    for (const char letter : reader.text(key, "")) words.push_back(std::string(1, letter));
    if (words.empty()) reader.problem(key, "is missing; it says what each layer is");
  }
  const auto kinds = read_kinds(reader, key, words,
                                {{"M", "linear_alone"},
                                 {"*", "attention_alone"},
                                 {"-", "feed_forward_alone"},
                                 {"linear_attention", "linear_alone"},
                                 {"full_attention", "attention_alone"},
                                 {"mamba", "linear_alone"},
                                 {"attention", "attention_alone"},
                                 {"mlp", "feed_forward_alone"}});
  model.layers = std::max<std::int64_t>(1, static_cast<std::int64_t>(kinds.size()));
  model.layer_kinds = repeated_part(kinds);
}

void require_text(ConfigReader& reader, const std::string& key, const std::string& expected) {
  const std::string found = reader.text(key, expected);
  if (found != expected) reader.problem(key, "is " + JsonValue(found).dump() + "; " + expected + " is needed");
}

}  // namespace

ModelRecipe read_qwen3_next(ConfigReader& reader) {
  ModelRecipe model;
  read_hybrid_sizes(reader, model);
  model.layers = reader.size("num_hidden_layers");
  model.head_dim = reader.size("head_dim", 256);
  model.max_sequence_length = reader.size("max_position_embeddings", 32768);
  model.activation = Activation::swiglu;
  require_text(reader, "hidden_act", "silu");
  model.norm_eps = reader.number("rms_norm_eps", 1e-6);
  model.position = Position::rope;
  read_partial_rope(reader, model, 10000, 0.25);
  model.set_biases(false);
  reader.require("attention_bias", false, false);
  model.qk_norm = model.attention_gate = true;
  read_qwen3_kinds(reader, model);
  model.linear_attention = LinearAttentionRecipe{.key_heads = reader.size("linear_num_key_heads", 16),
                                                 .value_heads = reader.size("linear_num_value_heads", 32),
                                                 .key_head_dim = reader.size("linear_key_head_dim", 128),
                                                 .value_head_dim = reader.size("linear_value_head_dim", 128),
                                                 .convolution = reader.size("linear_conv_kernel_dim", 4)};
  model.moe = read_experts(reader, HuggingfaceType::qwen2_moe, model);
  return model;
}

ModelRecipe read_nemotron_h(ConfigReader& reader) {
  ModelRecipe model;
  read_hybrid_sizes(reader, model);
  // Files of the first models have the second name.
  model.head_dim = reader.size(reader.get("head_dim") != nullptr ? "head_dim" : "attention_head_dim", 128);
  model.max_sequence_length = reader.size("max_position_embeddings", 4096);
  model.activation = Activation::squared_relu;
  require_text(reader, "mlp_hidden_act", "relu2");
  require_text(reader, "mamba_hidden_act", "silu");
  model.norm_eps = reader.number("layer_norm_epsilon", reader.number("rms_norm_eps", 1e-5));
  model.position = Position::none;
  for (const char* key : {"attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias"})
    reader.require(key, false, false);
  model.set_biases(false);
  read_nemotron_kinds(reader, model);
  model.linear_attention = LinearAttentionRecipe{.kind = LinearAttentionKind::mamba2,
                                                 .key_heads = reader.size("n_groups", 8),
                                                 .value_heads = reader.size("mamba_num_heads", 128),
                                                 .key_head_dim = reader.size("ssm_state_size", 128),
                                                 .value_head_dim = reader.size("mamba_head_dim", 64),
                                                 .convolution = reader.size("conv_kernel", 4),
                                                 .convolution_bias = reader.boolean("use_conv_bias", true),
                                                 .chunk = reader.size("chunk_size", 128)};
  return model;
}

}  // namespace llmtrain
