// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/body/parts/relative_bias.h"
#include "core/checkpoint/safetensors.h"
#include "core/graph/presets/encoder.h"
#include "core/huggingface/huggingface.h"
#include "core/huggingface/huggingface_tensors.h"
#include "core/huggingface/images/image_classifier_config.h"
#include "core/huggingface/shards.h"
#include "core/huggingface/tensor_dtype.h"
#include "core/huggingface/tensor_values.h"
#include "core/huggingface/weight_source.h"
#include "core/json/json_file.h"
#include "core/json/json_text.h"
#include "core/recipe/model_from/huggingface_encoder.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// The end-of-text token depends on the tokenizer, which a model does not know, but a vocabulary of this size is
// GPT-2's, as it is or padded.
Json end_of_text(const ModelRecipe& model, HuggingfaceType type) {
  constexpr std::int64_t gpt2_vocabulary = 50257;
  constexpr std::int64_t padded = 50304;
  const bool is_gpt2 =
      type == HuggingfaceType::gpt2 && model.vocab_size >= gpt2_vocabulary && model.vocab_size <= padded;
  return is_gpt2 ? Json(gpt2_vocabulary - 1) : Json();
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

// With the keys that transformers requires or knows for the type.
Json rope_scaling_of(const RopeScalingRecipe& scaling) {
  switch (scaling.type) {
    case RopeScalingType::linear:
      return {{"rope_type", "linear"}, {"factor", scaling.factor}};
    case RopeScalingType::llama3:
      return {{"rope_type", "llama3"},
              {"factor", scaling.factor},
              {"low_freq_factor", scaling.low_frequency_factor},
              {"high_freq_factor", scaling.high_frequency_factor},
              {"original_max_position_embeddings", scaling.original_max_sequence_length}};
    case RopeScalingType::yarn:
      return {{"rope_type", "yarn"},
              {"factor", scaling.factor},
              {"beta_fast", scaling.beta_fast},
              {"beta_slow", scaling.beta_slow},
              {"attention_factor", scaling.attention_factor},
              {"truncate", scaling.truncate},
              {"original_max_position_embeddings", scaling.original_max_sequence_length}};
  }
  return {};
}

// transformers 4 reads the theta and the scaling, 5 the parameters.
void add_rope(Json& config, const ModelRecipe& model) {
  Json parameters = model.rope_scaling ? rope_scaling_of(*model.rope_scaling) : Json{{"rope_type", "default"}};
  config["rope_theta"] = model.rope_theta;
  if (model.rope_scaling) config["rope_scaling"] = parameters;
  parameters["rope_theta"] = model.rope_theta;
  config["rope_parameters"] = std::move(parameters);
}

void add_llama_family(Json& config, const ModelRecipe& model, HuggingfaceType type) {
  config["num_hidden_layers"] = model.layers;
  config["hidden_size"] = model.hidden_size;
  config["num_attention_heads"] = model.heads;
  config["num_key_value_heads"] = model.kv_heads;
  config["head_dim"] = model.head_dim;
  config["intermediate_size"] = model.ffn_hidden_size;
  config["max_position_embeddings"] = model.max_sequence_length;
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = model.norm_eps;
  add_rope(config, model);
  // Llama has a key for dropout in attention only; our dropout has more places, and inference has none.
  config["attention_dropout"] = 0.0;
  if (type == HuggingfaceType::llama) config["mlp_bias"] = model.bias;
  if (type == HuggingfaceType::llama || type == HuggingfaceType::qwen3 || type == HuggingfaceType::qwen3_moe)
    config["attention_bias"] = model.attention_output_bias;
  if (type == HuggingfaceType::qwen2_moe) config["qkv_bias"] = model.qkv_bias;
  if (is_qwen(type)) config["use_sliding_window"] = false;
  if (type != HuggingfaceType::llama)
    config["sliding_window"] = model.sliding_window ? Json(model.sliding_window->tokens) : Json();
}

// Capacity and losses are matters of training, which the configuration does not know: transformers drops no tokens.
void add_experts(Json& config, const MixtureOfExpertsRecipe& moe, HuggingfaceType type) {
  config["num_experts_per_tok"] = moe.top_k;
  if (type == HuggingfaceType::mixtral) {
    config["num_local_experts"] = moe.experts;
    config["intermediate_size"] = moe.ffn_hidden_size;
    return;
  }
  config["num_experts"] = moe.experts;
  config["moe_intermediate_size"] = moe.ffn_hidden_size;
  config["norm_topk_prob"] = moe.normalize_gates;
  config["decoder_sparse_step"] = moe.every;
  config["mlp_only_layers"] = Json::array();
  for (std::int64_t layer = 0; layer < moe.dense_layers; ++layer) config["mlp_only_layers"].push_back(layer);
  if (type == HuggingfaceType::qwen2_moe)
    config["shared_expert_intermediate_size"] = moe.shared_experts * moe.ffn_hidden_size;
}

void add_encoder(Json& config, const ModelRecipe& model, HuggingfaceType type) {
  add_encoder_layers(config, model);
  config["max_position_embeddings"] = model.max_sequence_length + rows_before_positions(type);
  config["type_vocab_size"] = token_types(model.architecture);
}

// "BertForMaskedLM", or the class of the same family that tells classes.
std::string class_name_of(const ModelRecipe& model, std::string_view name) {
  constexpr std::string_view of_tokens = "ForMaskedLM";
  if (!model.classifier) return std::string(name);
  const std::string family(name.substr(0, name.size() - of_tokens.size()));
  switch (model.classifier->of) {
    case ClassifiedPart::sequence:
      return family + "ForSequenceClassification";
    case ClassifiedPart::token:
      return family + "ForTokenClassification";
    case ClassifiedPart::span:
      break;
  }
  return family + "ForQuestionAnswering";
}

void add_bart(Json& config, const ModelRecipe& model) {
  config["d_model"] = model.hidden_size;
  config["encoder_layers"] = config["num_hidden_layers"] = model.layers;
  config["decoder_layers"] = model.decoder_layers;
  for (const std::string side : {"encoder", "decoder"}) {
    config[side + "_attention_heads"] = model.heads;
    config[side + "_ffn_dim"] = model.ffn_hidden_size;
  }
  config["max_position_embeddings"] = model.max_sequence_length;
  config["activation_function"] = model.activation == Activation::gelu        ? "gelu"
                                  : model.activation == Activation::gelu_tanh ? "gelu_new"
                                                                              : "relu";
  config["scale_embedding"] = false;
  config["dropout"] = config["activation_dropout"] = model.dropout;
  config["attention_dropout"] = 0.0;
  config["init_std"] = model.init_std;
}

std::string t5_projection(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_new";
    case Activation::geglu_tanh:
      return "gated-gelu";
    case Activation::swiglu:
      return "gated-silu";
    case Activation::relu:
    case Activation::geglu:
    case Activation::squared_relu:
    case Activation::clamped_swiglu:
      break;
  }
  return "relu";
}

// transformers 4 knows by tied embeddings whether the head scales, 5 by a key of its own.
void add_t5(Json& config, const ModelRecipe& model) {
  config["d_model"] = model.hidden_size;
  config["d_kv"] = model.head_dim;
  config["d_ff"] = model.ffn_hidden_size;
  config["num_layers"] = model.layers;
  config["num_decoder_layers"] = model.decoder_layers;
  config["num_heads"] = model.heads;
  config["n_positions"] = model.max_sequence_length;
  config["relative_attention_num_buckets"] = body::RelativeBuckets{}.buckets;
  config["relative_attention_max_distance"] = body::RelativeBuckets{}.most_distance;
  config["feed_forward_proj"] = t5_projection(model.activation);
  config["layer_norm_epsilon"] = model.norm_eps;
  config["dropout_rate"] = model.dropout;
  config["initializer_factor"] = model.init_std;
  config["scale_decoder_outputs"] = model.tie_embeddings;
}

// For transformers 4 and 5; `dtype` is PyTorch's name of the weights' type.
Json config_of(const ModelRecipe& model, HuggingfaceType type, const std::string& dtype) {
  Json config;
  const HuggingfaceNames& names = huggingface_names[static_cast<std::size_t>(type)];
  config["architectures"] = {class_name_of(model, names.class_name)};
  config["model_type"] = names.model_type;
  // transformers 4 reads "torch_dtype", 5 reads "dtype".
  config["dtype"] = config["torch_dtype"] = dtype;
  if (is_image_classifier(type)) {
    add_vit(config, model);
    return config;
  }
  config["vocab_size"] = model.vocab_size;
  if (type == HuggingfaceType::gpt2) {
    add_gpt2(config, model);
  } else if (is_encoder(type)) {
    add_encoder(config, model, type);
  } else if (is_encoder_decoder(type)) {
    type == HuggingfaceType::bart ? add_bart(config, model) : add_t5(config, model);
    config["is_encoder_decoder"] = true;
  } else {
    add_llama_family(config, model, type);
    if (model.moe) add_experts(config, *model.moe, type);
  }
  config["tie_word_embeddings"] = model.tie_embeddings;
  if (!is_encoder_decoder(type)) config["initializer_range"] = model.init_std;
  config["bos_token_id"] = config["eos_token_id"] = end_of_text(model, type);
  config["use_cache"] = true;
  return config;
}

// PyTorch's names of the types that weights are written in.
std::string pytorch_name(at::ScalarType type) {
  if (type == at::kHalf) return "float16";
  return type == at::kBFloat16 ? "bfloat16" : "float32";
}

// Throws where a tensor's values are not finite in the type in which they are to be written.
[[noreturn]] void refuse_values(const HuggingfaceTensor& plan, const Graph& graph, const WeightSource& weights,
                                at::ScalarType dtype) {
  double largest = 0;
  for (const std::size_t index : plan.parameters)
    visit_pieces(weights, graph.parameters[index], plan.expert, at::kFloat, [&](const at::Tensor& piece) {
      require_finite(piece, plan.name);
      largest = std::max(largest, largest_magnitude(piece));
    });
  const bool is_half = dtype == at::kHalf;
  throw Error(ExitCode::bad_data,
              fmt::format("{}: has values of up to {:.6g}, and {} holds none beyond {:.6g}; export with --dtype {}",
                          plan.name, largest, pytorch_name(dtype), is_half ? 65504 : 3.3895313892515355e38,
                          is_half ? "bf16 or fp32" : "fp32"));
}

TensorContent content_of(const HuggingfaceTensor& plan, const Graph& graph, const WeightSource& weights,
                         at::ScalarType dtype) {
  // The graph and the weights outlive the writing of the files.
  return [plan, &graph, &weights, dtype](const WriteBytes& write) {
    const auto write_values = [&](const at::Tensor& values) {
      if (!std::isfinite(largest_magnitude(values))) refuse_values(plan, graph, weights, dtype);
      write(values.data_ptr(), values.nbytes());
    };
    // Another arrangement than its parameters' is made as a whole.
    if (plan.transposed) return write_values(values_of(plan, graph, weights).to(dtype));
    if (plan.rows_before > 0) {
      const std::vector<std::int64_t> shape = plan.shape(graph);
      write_values(at::zeros({plan.rows_before, shape.back()}, dtype));
    }
    for (const std::size_t index : plan.parameters)
      visit_pieces(weights, graph.parameters[index], plan.expert, dtype, write_values);
  };
}

// One id, or a list of several.
Json as_ids(const std::vector<std::int64_t>& ids) { return ids.size() == 1 ? Json(ids.front()) : Json(ids); }

constexpr std::array special_tokens{"bos_token_id",           "eos_token_id",        "pad_token_id",
                                    "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id"};

// What config.json of `origin` says of special tokens, which a model does not know itself.
void take_special_tokens(Json& config, const fs::path& origin) {
  const fs::path file = origin / "config.json";
  if (origin.empty() || !path_exists(file)) return;
  const auto theirs = parse_json<Json>(read_text_file(file), file.string());
  for (const std::string key : special_tokens)
    if (theirs.is_object() && theirs.contains(key)) config[key] = theirs[key];
}

Json generation_config_of(const Json& config) {
  Json generation;
  generation["_from_model_config"] = true;
  for (const std::string key : special_tokens)
    if (config.contains(key) && !config[key].is_null()) generation[key] = config[key];
  return generation;
}

// The origin's file as it is, where that names all ids that end a text.
std::string generation_config_text(const HuggingfaceFormat& format, const Json& config) {
  const fs::path file = format.origin / "generation_config.json";
  const bool has_file = !format.origin.empty() && path_exists(file);
  const std::string text = has_file ? read_text_file(file) : "";
  Json generation = has_file ? parse_json<Json>(text, file.string()) : generation_config_of(config);
  if (!generation.is_object()) return text;
  const Json named = generation.contains("eos_token_id") ? generation["eos_token_id"] : Json();
  std::vector<std::int64_t> ends;
  for (const Json& id : named.is_array() ? named : Json::array({named}))
    if (id.is_number_integer()) ends.push_back(id.get<std::int64_t>());
  const std::size_t known = ends.size();
  for (const std::int64_t id : format.ends)
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  if (ends.size() == known && has_file) return text;
  if (!ends.empty()) generation["eos_token_id"] = as_ids(ends);
  return generation.dump(2) + "\n";
}

void write_model(const fs::path& folder, const Graph& graph, const WeightSource& weights,
                 const HuggingfaceFormat& format, const Json& config) {
  std::vector<SafetensorsTensor> tensors;
  const HuggingfaceType type = huggingface_type_of(graph.model);
  for (const HuggingfaceTensor& plan : huggingface_tensors(graph, type)) {
    const auto write_as = [&](const std::string& name) {
      tensors.push_back(
          {name, dtype_name(format.dtype), plan.shape(graph), nullptr, content_of(plan, graph, weights, format.dtype)});
    };
    write_as(plan.name);
    // transformers has it twice where it ties nothing.
    if (is_encoder(type) && !graph.model.tie_embeddings && plan.name == head_bias(type))
      write_as(head_bias_beside(type));
  }
  if (type == HuggingfaceType::bart) {
    const at::Tensor zeros = at::zeros({1, graph.model.vocab_size}, format.dtype);
    tensors.push_back({std::string(final_logits_bias), dtype_name(format.dtype), zeros.sizes().vec(), nullptr,
                       [zeros](const WriteBytes& write) { write(zeros.data_ptr(), zeros.nbytes()); }});
  }
  write_shards(folder, std::move(tensors), format.shard_bytes);
  if (is_image_classifier(type))
    write_preprocessor_config(folder, format.images, graph.model.image.value().size, format.origin);
  else if (!is_encoder(type))
    write_file_atomically(folder / "generation_config.json", generation_config_text(format, config));
  // Written last: a folder without it is not a model, so an interrupted export is recognised as such.
  write_file_atomically(folder / "config.json", config.dump(2) + "\n");
}

// What a failed write_model() left of a folder that was empty, or not there.
void remove_model(const fs::path& folder, bool was_there) noexcept {
  std::error_code ignored;
  std::vector<fs::path> written;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    for (const char* start : {"model", "generation_config.json", preprocessor_file, "config.json"})
      if (entry.path().filename().string().starts_with(start)) written.push_back(entry.path());
  for (const fs::path& path : written) fs::remove(path, ignored);
  if (!was_there) fs::remove(folder, ignored);
}

// What a model does not know itself.
void add_special_tokens(Json& config, HuggingfaceType type, const HuggingfaceFormat& format) {
  take_special_tokens(config, format.origin);
  if (format.origin.empty() && format.padding) config["pad_token_id"] = *format.padding;
  if (format.origin.empty() && is_encoder_decoder(type)) {
    const std::optional<std::int64_t> start = format.decoder_start ? format.decoder_start : format.padding;
    if (start) config["decoder_start_token_id"] = *start;
  }
  // The positions count from it.
  if (type == HuggingfaceType::xlm_roberta) config["pad_token_id"] = roberta_padding;
  if (config["eos_token_id"].is_null() && !format.ends.empty()) config["eos_token_id"] = as_ids(format.ends);
}

}  // namespace

void save_huggingface(const fs::path& folder, const Graph& graph, const WeightSource& weights,
                      const HuggingfaceFormat& format) {
  const HuggingfaceType type = huggingface_type_of(graph.model);
  Json config = config_of(graph.model, type, pytorch_name(format.dtype));
  if (!is_image_classifier(type)) add_special_tokens(config, type, format);
  const bool was_there = path_exists(folder);
  create_folder(folder);
  try {
    write_model(folder, graph, weights, format, config);
  } catch (...) {
    remove_model(folder, was_there);
    throw;
  }
}

}  // namespace llmtrain
