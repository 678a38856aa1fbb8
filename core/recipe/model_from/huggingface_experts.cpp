// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/huggingface_experts.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace llmtrain {
namespace {

using JsonValue = nlohmann::json;

// The layers with experts as every n-th one, after leading dense ones: decoder_sparse_step, without those that
// mlp_only_layers names.
void read_layers(ConfigReader& reader, const ModelRecipe& model, MixtureOfExpertsRecipe& moe) {
  const std::int64_t step = reader.size("decoder_sparse_step", 1);
  const JsonValue* dense = reader.get("mlp_only_layers");
  moe.every = step;
  if (dense == nullptr || dense->empty()) return;
  const auto is_sparse = [&](std::int64_t layer) {
    return (layer + 1) % step == 0 && std::ranges::find(*dense, JsonValue(layer)) == dense->end();
  };
  std::int64_t first = 0;
  while (first < model.layers && !is_sparse(first)) ++first;
  const auto is_regular = [&](std::int64_t every, std::int64_t dense_layers) {
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
      if (is_sparse(layer) != (layer >= dense_layers && (layer + 1) % every == 0)) return false;
    return first < model.layers;
  };
  if (is_regular(first + 1, 0)) {
    moe.every = first + 1;
  } else if (is_regular(step, first)) {
    moe.dense_layers = first;
  } else {
    reader.problem("mlp_only_layers", "is " + ConfigReader::shown(*dense) +
                                          "; only experts in the last of every n layers, after leading dense ones, are "
                                          "supported");
  }
}

// A gate weighs the output of Qwen2-MoE's one, which is as wide as several routed ones.
void read_shared_experts(ConfigReader& reader, MixtureOfExpertsRecipe& moe) {
  const std::int64_t width = reader.size("shared_expert_intermediate_size");
  moe.shared_gate = true;
  moe.shared_experts = width / moe.ffn_hidden_size;
  if (width % moe.ffn_hidden_size != 0)
    reader.problem("shared_expert_intermediate_size",
                   "is " + std::to_string(width) + ", which is not a multiple of /moe_intermediate_size " +
                       std::to_string(moe.ffn_hidden_size) + "; shared experts are supported that are as wide");
}

}  // namespace

MixtureOfExpertsRecipe read_experts(ConfigReader& reader, HuggingfaceType type, const ModelRecipe& model) {
  MixtureOfExpertsRecipe moe;
  moe.capacity_factor = 0;
  moe.top_k = reader.size("num_experts_per_tok");
  if (type == HuggingfaceType::mixtral) {
    moe.experts = reader.size("num_local_experts");
    moe.ffn_hidden_size = model.ffn_hidden_size;
    moe.normalize_gates = true;
    return moe;
  }
  // Version 5 of transformers writes the first name, too.
  moe.experts = reader.size(reader.get("num_experts") != nullptr ? "num_experts" : "num_local_experts");
  moe.ffn_hidden_size = reader.size("moe_intermediate_size");
  moe.normalize_gates = reader.boolean("norm_topk_prob", false);
  read_layers(reader, model, moe);
  if (type == HuggingfaceType::qwen2_moe) read_shared_experts(reader, moe);
  return moe;
}

}  // namespace llmtrain
