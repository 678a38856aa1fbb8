// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/model_from/huggingface_config.h"

namespace llmtrain {

// Where PEFT keeps a parameter of an adapter.
struct AdapterPlace {
  const Parameter* parameter = nullptr;
  std::string module;  // of transformers, "model.layers.0.self_attn.q_proj"
  std::string tensor;  // "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
};

// Those of all adapters, A before B of each. Throws Error(bad_recipe) for adapters to query, key and value of GPT-2,
// which transformers keeps as one matrix. The graph outlives the result.
std::vector<AdapterPlace> adapter_places(const Graph& graph, HuggingfaceType type);

}  // namespace llmtrain
