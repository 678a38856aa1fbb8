// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/huggingface_tensors.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/huggingface/encoder_decoder_places.h"
#include "core/huggingface/images/image_classifier_places.h"
#include "core/recipe/model_from/huggingface_encoder.h"

namespace llmtrain {
namespace {

using Place = TensorPlace;
using Storage = TensorPlace::Storage;

constexpr Place gpt2_places[] = {
    {"token.weight", "transformer.wte.weight"},
    {"position.weight", "transformer.wpe.weight"},
    {"final_norm.weight", "transformer.ln_f.weight"},
    {"final_norm.bias", "transformer.ln_f.bias"},
    {"head.weight", "lm_head.weight"},
    {"attention_norm.weight", "transformer.h.{}.ln_1.weight"},
    {"attention_norm.bias", "transformer.h.{}.ln_1.bias"},
    {"attention.query.weight", "transformer.h.{}.attn.c_attn.weight", Storage::transposed},
    {"attention.key.weight", "transformer.h.{}.attn.c_attn.weight", Storage::transposed},
    {"attention.value.weight", "transformer.h.{}.attn.c_attn.weight", Storage::transposed},
    {"attention.query.bias", "transformer.h.{}.attn.c_attn.bias"},
    {"attention.key.bias", "transformer.h.{}.attn.c_attn.bias"},
    {"attention.value.bias", "transformer.h.{}.attn.c_attn.bias"},
    {"attention.output.weight", "transformer.h.{}.attn.c_proj.weight", Storage::transposed},
    {"attention.output.bias", "transformer.h.{}.attn.c_proj.bias"},
    {"ffn_norm.weight", "transformer.h.{}.ln_2.weight"},
    {"ffn_norm.bias", "transformer.h.{}.ln_2.bias"},
    {"ffn.up.weight", "transformer.h.{}.mlp.c_fc.weight", Storage::transposed},
    {"ffn.up.bias", "transformer.h.{}.mlp.c_fc.bias"},
    {"ffn.down.weight", "transformer.h.{}.mlp.c_proj.weight", Storage::transposed},
    {"ffn.down.bias", "transformer.h.{}.mlp.c_proj.bias"},
};

constexpr Place llama_places[] = {
    {"token.weight", "model.embed_tokens.weight"},
    {"final_norm.weight", "model.norm.weight"},
    {"head.weight", "lm_head.weight"},
    {"attention_norm.weight", "model.layers.{}.input_layernorm.weight"},
    {"attention.query.weight", "model.layers.{}.self_attn.q_proj.weight"},
    {"attention.query.bias", "model.layers.{}.self_attn.q_proj.bias"},
    {"attention.query_norm.weight", "model.layers.{}.self_attn.q_norm.weight"},
    {"attention.key.weight", "model.layers.{}.self_attn.k_proj.weight"},
    {"attention.key.bias", "model.layers.{}.self_attn.k_proj.bias"},
    {"attention.key_norm.weight", "model.layers.{}.self_attn.k_norm.weight"},
    {"attention.value.weight", "model.layers.{}.self_attn.v_proj.weight"},
    {"attention.value.bias", "model.layers.{}.self_attn.v_proj.bias"},
    {"attention.output.weight", "model.layers.{}.self_attn.o_proj.weight"},
    {"attention.output.bias", "model.layers.{}.self_attn.o_proj.bias"},
    {"ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight"},
    {"ffn.gate.weight", "model.layers.{}.mlp.gate_proj.weight"},
    {"ffn.gate.bias", "model.layers.{}.mlp.gate_proj.bias"},
    {"ffn.up.weight", "model.layers.{}.mlp.up_proj.weight"},
    {"ffn.up.bias", "model.layers.{}.mlp.up_proj.bias"},
    {"ffn.down.weight", "model.layers.{}.mlp.down_proj.weight"},
    {"ffn.down.bias", "model.layers.{}.mlp.down_proj.bias"},
};

constexpr Place mixtral_places[] = {
    {"ffn.router.weight", "model.layers.{}.block_sparse_moe.gate.weight"},
    {"ffn.experts.gate.weight", "model.layers.{}.block_sparse_moe.experts.{}.w1.weight"},
    {"ffn.experts.up.weight", "model.layers.{}.block_sparse_moe.experts.{}.w3.weight"},
    {"ffn.experts.down.weight", "model.layers.{}.block_sparse_moe.experts.{}.w2.weight"},
};

constexpr Place qwen_moe_places[] = {
    {"ffn.router.weight", "model.layers.{}.mlp.gate.weight"},
    {"ffn.experts.gate.weight", "model.layers.{}.mlp.experts.{}.gate_proj.weight"},
    {"ffn.experts.up.weight", "model.layers.{}.mlp.experts.{}.up_proj.weight"},
    {"ffn.experts.down.weight", "model.layers.{}.mlp.experts.{}.down_proj.weight"},
};

// Those of Qwen2-MoE alone.
constexpr Place shared_expert_places[] = {
    {"ffn.shared_gate.weight", "model.layers.{}.mlp.shared_expert_gate.weight"},
    {"ffn.shared.gate.weight", "model.layers.{}.mlp.shared_expert.gate_proj.weight"},
    {"ffn.shared.up.weight", "model.layers.{}.mlp.shared_expert.up_proj.weight"},
    {"ffn.shared.down.weight", "model.layers.{}.mlp.shared_expert.down_proj.weight"},
};

// What is in no layer is named with its block.
constexpr Place bert_places[] = {
    {"embedding.token.weight", "bert.embeddings.word_embeddings.weight"},
    {"embedding.position.weight", "bert.embeddings.position_embeddings.weight"},
    {"embedding.token_type.weight", "bert.embeddings.token_type_embeddings.weight"},
    {"embedding.norm.weight", "bert.embeddings.LayerNorm.weight"},
    {"embedding.norm.bias", "bert.embeddings.LayerNorm.bias"},
    {"attention.query.weight", "bert.encoder.layer.{}.attention.self.query.weight"},
    {"attention.query.bias", "bert.encoder.layer.{}.attention.self.query.bias"},
    {"attention.key.weight", "bert.encoder.layer.{}.attention.self.key.weight"},
    {"attention.key.bias", "bert.encoder.layer.{}.attention.self.key.bias"},
    {"attention.value.weight", "bert.encoder.layer.{}.attention.self.value.weight"},
    {"attention.value.bias", "bert.encoder.layer.{}.attention.self.value.bias"},
    {"attention.output.weight", "bert.encoder.layer.{}.attention.output.dense.weight"},
    {"attention.output.bias", "bert.encoder.layer.{}.attention.output.dense.bias"},
    {"attention_norm.weight", "bert.encoder.layer.{}.attention.output.LayerNorm.weight"},
    {"attention_norm.bias", "bert.encoder.layer.{}.attention.output.LayerNorm.bias"},
    {"ffn.up.weight", "bert.encoder.layer.{}.intermediate.dense.weight"},
    {"ffn.up.bias", "bert.encoder.layer.{}.intermediate.dense.bias"},
    {"ffn.down.weight", "bert.encoder.layer.{}.output.dense.weight"},
    {"ffn.down.bias", "bert.encoder.layer.{}.output.dense.bias"},
    {"ffn_norm.weight", "bert.encoder.layer.{}.output.LayerNorm.weight"},
    {"ffn_norm.bias", "bert.encoder.layer.{}.output.LayerNorm.bias"},
    {"head.transform.weight", "cls.predictions.transform.dense.weight"},
    {"head.transform.bias", "cls.predictions.transform.dense.bias"},
    {"head.norm.weight", "cls.predictions.transform.LayerNorm.weight"},
    {"head.norm.bias", "cls.predictions.transform.LayerNorm.bias"},
    {"head.head.weight", "cls.predictions.decoder.weight"},
    {"head.head.bias", "cls.predictions.bias"},
    {"head.pooler.weight", "bert.pooler.dense.weight"},
    {"head.pooler.bias", "bert.pooler.dense.bias"},
    {"head.classifier.weight", "classifier.weight"},
    {"head.classifier.bias", "classifier.bias"},
};

constexpr Place roberta_head_places[] = {
    {"head.transform.weight", "lm_head.dense.weight"}, {"head.transform.bias", "lm_head.dense.bias"},
    {"head.norm.weight", "lm_head.layer_norm.weight"}, {"head.norm.bias", "lm_head.layer_norm.bias"},
    {"head.head.weight", "lm_head.decoder.weight"},    {"head.head.bias", "lm_head.bias"},
};

// Its head for classes of sequences has the pooler within.
constexpr Place roberta_sequence_places[] = {
    {"head.pooler.weight", "classifier.dense.weight"},
    {"head.pooler.bias", "classifier.dense.bias"},
    {"head.classifier.weight", "classifier.out_proj.weight"},
    {"head.classifier.bias", "classifier.out_proj.bias"},
};

constexpr Place span_places[] = {
    {"head.classifier.weight", "qa_outputs.weight"},
    {"head.classifier.bias", "qa_outputs.bias"},
};

std::vector<std::span<const Place>> places_of(const ModelRecipe& model, HuggingfaceType type) {
  if (is_encoder_decoder(type)) return encoder_decoder_places(type, model.activation);
  if (is_image_classifier(type)) return {vit_places()};
  if (model.classifier && model.classifier->of == ClassifiedPart::span && is_encoder(type))
    return {span_places, bert_places};
  if (type == HuggingfaceType::bert) return {bert_places};
  if (model.classifier && model.classifier->of == ClassifiedPart::sequence && is_encoder(type))
    return {roberta_sequence_places, bert_places};
  if (is_encoder(type)) return {roberta_head_places, bert_places};
  if (type == HuggingfaceType::gpt2) return {gpt2_places};
  if (type == HuggingfaceType::mixtral) return {mixtral_places, llama_places};
  return {shared_expert_places, qwen_moe_places, llama_places};
}

// "encoder." or "decoder.", with which names of an encoder-decoder's layers begin; empty elsewhere.
std::string side_of(const Block& block) {
  const std::size_t layers = block.name.find(".layers.");
  return layers == std::string::npos ? "" : block.name.substr(0, layers + 1);
}

// The number in "layers.3"; -1 of other blocks.
std::int64_t layer_of(const Block& block) {
  const std::string start = side_of(block) + "layers.";
  std::int64_t layer = -1;
  if (block.name.starts_with(start))
    std::from_chars(block.name.data() + start.size(), block.name.data() + block.name.size(), layer);
  return layer;
}

// RoBERTa's tensors but those of its head are called as BERT's behind the model's prefix.
std::string in_family(std::string name, HuggingfaceType type) {
  constexpr std::string_view bert = "bert.";
  if (!is_encoder(type) || type == HuggingfaceType::bert || !name.starts_with(bert)) return name;
  return "roberta." + name.substr(bert.size());
}

HuggingfaceTensor place_of(const std::vector<std::span<const Place>>& lists, const std::string& parameter,
                           std::int64_t layer, std::optional<std::int64_t> expert) {
  for (const std::span<const Place> places : lists) {
    const auto place = std::ranges::find(places, parameter, &Place::parameter);
    if (place == places.end()) continue;
    return {fmt::format(fmt::runtime(place->name), layer, expert.value_or(0)),
            {},
            place->storage == Storage::transposed,
            expert};
  }
  throw std::logic_error("this family of models has no parameter " + parameter);
}

// Adds a parameter to the tensor that contains it, which may exist already.
void add(std::vector<HuggingfaceTensor>& tensors, HuggingfaceTensor place, std::size_t parameter) {
  auto tensor = std::ranges::find(tensors, place.name, &HuggingfaceTensor::name);
  if (tensor == tensors.end()) tensor = tensors.insert(tensors.end(), std::move(place));
  tensor->parameters.push_back(parameter);
}

}  // namespace

std::vector<std::int64_t> HuggingfaceTensor::shape(const Graph& graph) const {
  if (!stored.empty()) return stored;
  std::vector<std::int64_t> whole = graph.parameters[parameters.front()].shape;
  if (expert) return {whole.begin() + 1, whole.end()};
  whole.front() = rows_before;
  for (const std::size_t parameter : parameters) whole.front() += graph.parameters[parameter].shape.front();
  if (transposed) std::swap(whole.front(), whole.back());
  return whole;
}

std::vector<HuggingfaceTensor> huggingface_tensors(const Graph& graph, HuggingfaceType type) {
  const auto places = places_of(graph.model, type);
  std::vector<HuggingfaceTensor> tensors;
  for (const Block& block : graph.blocks) {
    // Block by block, since only parameters of one block share a tensor.
    std::vector<HuggingfaceTensor> of_block;
    const std::int64_t layer = layer_of(block);
    for (const std::size_t index : block.parameters) {
      const Parameter& parameter = graph.parameters[index];
      if (parameter.is_adapter) continue;
      const bool is_of_bodies = has_bodies(graph.model.architecture);
      const std::string name = is_of_bodies && layer < 0 ? parameter.name : side_of(block) + parameter.local_name;
      if (!parameter.has_expert_axis) add(of_block, place_of(places, name, layer, std::nullopt), index);
      for (std::int64_t expert = 0; parameter.has_expert_axis && expert < parameter.shape.front(); ++expert)
        add(of_block, place_of(places, parameter.local_name, layer, expert), index);
    }
    tensors.insert(tensors.end(), of_block.begin(), of_block.end());
  }
  for (HuggingfaceTensor& tensor : tensors) {
    tensor.name = in_family(std::move(tensor.name), type);
    const bool has_positions =
        tensor.name.ends_with("position_embeddings.weight") || tensor.name.ends_with("embed_positions.weight");
    if (has_positions) tensor.rows_before = rows_before_positions(type);
    if (is_image_classifier(type))
      tensor.stored = vit_shape(tensor.name, tensor.shape(graph), graph.model.image.value());
  }
  return tensors;
}

std::string without_model_prefix(std::string_view name, HuggingfaceType type) {
  std::string_view prefix = "model.";
  if (type == HuggingfaceType::gpt2) prefix = "transformer.";
  if (type == HuggingfaceType::t5) prefix = "";
  if (type == HuggingfaceType::vit) prefix = "vit.";
  if (is_encoder(type)) prefix = type == HuggingfaceType::bert ? "bert." : "roberta.";
  return std::string(name.starts_with(prefix) ? name.substr(prefix.size()) : name);
}

std::string_view head_tensor(HuggingfaceType type) {
  if (!is_encoder(type)) return "lm_head.weight";
  return type == HuggingfaceType::bert ? "cls.predictions.decoder.weight" : "lm_head.decoder.weight";
}

std::string head_bias(HuggingfaceType type) {
  return type == HuggingfaceType::bert ? "cls.predictions.bias" : "lm_head.bias";
}

std::string head_bias_beside(HuggingfaceType type) {
  return type == HuggingfaceType::bert ? "cls.predictions.decoder.bias" : "lm_head.decoder.bias";
}

}  // namespace llmtrain
