// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/huggingface_encoder_decoder.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/json/json_file.h"

namespace llmtrain {
namespace {

struct NamedActivation {
  std::string_view name;
  Activation activation;
};

template <std::size_t Count>
Activation read_activation(ConfigReader& reader, const std::string& key, const std::string& otherwise,
                           const std::array<NamedActivation, Count>& known) {
  const std::string name = reader.text(key, otherwise);
  const auto found = std::ranges::find(known, name, &NamedActivation::name);
  if (found != known.end()) return found->activation;
  std::string names;
  for (const NamedActivation& each : known) names.append(names.empty() ? "" : ", ").append(each.name);
  reader.problem(key, "is " + quoted_text(name) + "; one of " + names + " is needed");
  return known.front().activation;
}

constexpr std::array<NamedActivation, 5> bart_activations{{{"gelu", Activation::gelu},
                                                           {"gelu_new", Activation::gelu_tanh},
                                                           {"gelu_fast", Activation::gelu_tanh},
                                                           {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                           {"relu", Activation::relu}}};
constexpr std::array<NamedActivation, 6> t5_activations{{{"relu", Activation::relu},
                                                         {"gelu", Activation::gelu},
                                                         {"gelu_new", Activation::gelu_tanh},
                                                         {"gated-gelu", Activation::geglu_tanh},
                                                         {"gated-gelu_new", Activation::geglu_tanh},
                                                         {"gated-silu", Activation::swiglu}}};

// The size of encoder and decoder, which is one here.
std::int64_t common_size(ConfigReader& reader, const std::string& key) {
  const std::int64_t size = reader.size("encoder_" + key), other = reader.size("decoder_" + key);
  if (size != other)
    reader.problem("decoder_" + key, "is " + std::to_string(other) + ", and the encoder has " + std::to_string(size) +
                                         "; equal numbers are needed");
  return size;
}

// Switches of models that are kin to BART, of which older files of BART have some.
void require_plain_bart(ConfigReader& reader) {
  for (const char* key :
       {"scale_embedding", "normalize_before", "add_final_layer_norm", "add_bias_logits", "static_position_embeddings"})
    reader.require(key, false, false);
  reader.require("normalize_embedding", true, true);
  reader.require("tie_word_embeddings", true, true);
}

}  // namespace

ModelRecipe read_bart(ConfigReader& reader) {
  ModelRecipe model;
  model.architecture = Architecture::bart;
  model.layers = reader.size("encoder_layers");
  model.decoder_layers = reader.size("decoder_layers");
  model.hidden_size = reader.size("d_model");
  model.heads = model.kv_heads = common_size(reader, "attention_heads");
  if (model.hidden_size % model.heads != 0)
    reader.problem(
        "encoder_attention_heads",
        "is " + std::to_string(model.heads) + ", which does not divide the width " + std::to_string(model.hidden_size));
  model.head_dim = model.hidden_size / model.heads;
  model.ffn_hidden_size = common_size(reader, "ffn_dim");
  model.vocab_size = reader.size("vocab_size");
  model.max_sequence_length = reader.size("max_position_embeddings");
  model.activation = read_activation(reader, "activation_function", "gelu", bart_activations);
  model.init_std = reader.number("init_std", 0.02);
  require_plain_bart(reader);
  return model;
}

// Sequences may have any length, which files of some versions of transformers do not say.
ModelRecipe read_t5(ConfigReader& reader) {
  constexpr std::int64_t usual_length = 512, buckets = 32, most_distance = 128;
  ModelRecipe model;
  model.architecture = Architecture::t5;
  model.layers = reader.size("num_layers");
  model.decoder_layers = reader.size("num_decoder_layers", model.layers);
  model.hidden_size = reader.size("d_model");
  model.heads = model.kv_heads = reader.size("num_heads");
  model.head_dim = reader.size("d_kv");
  model.ffn_hidden_size = reader.size("d_ff");
  model.vocab_size = reader.size("vocab_size");
  model.max_sequence_length = reader.size("n_positions", usual_length);
  model.activation = read_activation(reader, "feed_forward_proj", "relu", t5_activations);
  model.norm = NormKind::rmsnorm;
  model.norm_eps = reader.number("layer_norm_epsilon", 1e-6);
  model.position = Position::relative;
  model.set_biases(false);
  // T5 1.1, whose head has a matrix of its own, scales nothing; newer files say the one, older ones the other.
  model.tie_embeddings = reader.boolean("scale_decoder_outputs", reader.boolean("tie_word_embeddings", true));
  model.init_std = reader.number("initializer_factor", 1);
  const auto require = [&](const char* key, std::int64_t needed) {
    if (const std::int64_t size = reader.size(key, needed); size != needed)
      reader.problem(key, "is " + std::to_string(size) + "; " + std::to_string(needed) + " is needed");
  };
  require("relative_attention_num_buckets", buckets);
  require("relative_attention_max_distance", most_distance);
  return model;
}

}  // namespace llmtrain
