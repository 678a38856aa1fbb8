// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/rules/planned_model.h"

#include <string>
#include <vector>

namespace llmtrain {
namespace {

void add_router_keys(const MixtureOfExpertsRecipe& moe, std::vector<PlannedKey>& keys) {
  keys.push_back({moe.router_bias, "/model/moe/router_bias", "true", "use false"});
  keys.push_back(
      {moe.score_function == ScoreFunction::sigmoid, "/model/moe/score_function", "\"sigmoid\"", "use \"softmax\""});
  keys.push_back({moe.selection_bias, "/model/moe/selection_bias", "true", "use false, and a model.moe.balance_loss"});
  keys.push_back({moe.top_groups < moe.groups, "/model/moe/top_groups",
                  std::to_string(moe.top_groups) + " of " + std::to_string(moe.groups) + " groups",
                  "use model.moe.groups"});
  keys.push_back({moe.gate_scale != 1, "/model/moe/gate_scale", "a factor of gates", "use 1"});
}

void add_layer_keys(const ModelRecipe& model, std::vector<PlannedKey>& keys) {
  keys.push_back({model.multi_token_prediction.has_value(), "/model/multi_token_prediction",
                  "layers that predict further tokens", "set it to null"});
  const bool is_packed = model.lora && model.lora->base == LoraBase::nf4;
  keys.push_back({is_packed, "/model/lora/base", "\"nf4\"", "use \"compute\""});
  keys.push_back({model.attention_gate, "/model/attention_gate", "true", "use false"});
  keys.push_back({model.rotary_dim.has_value(), "/model/rotary_dim", "a part of each head", "use \"auto\""});
  keys.push_back({model.linear_attention.has_value(), "/model/linear_attention", "linear attention", "set it to null"});
  keys.push_back({!model.layer_kinds.empty(), "/model/layer_kinds", "layers of several kinds", "leave it empty"});
}

}  // namespace

std::vector<PlannedKey> planned_model_keys(const ModelRecipe& model) {
  std::vector<PlannedKey> keys = {
      {model.latent_attention.has_value(), "/model/latent_attention", "multi-head latent attention", "set it to null"}};
  add_layer_keys(model, keys);
  add_router_keys(model.moe.value_or(MixtureOfExpertsRecipe{}), keys);
  return keys;
}

std::string planned_model_words(const ModelRecipe& model) {
  std::string words;
  for (const PlannedKey& key : planned_model_keys(model))
    if (key.is_wanted) words += (words.empty() ? "" : " and ") + std::string(key.pointer);
  return words;
}

}  // namespace llmtrain
