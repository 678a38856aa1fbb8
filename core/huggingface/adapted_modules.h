// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/huggingface/huggingface_tensors.h"
#include "core/recipe/model_from/huggingface_config.h"

namespace llmtrain {

// What PEFT keeps of a module of transformers, "model.layers.0.self_attn.q_proj": its adapter, or itself.
struct AdaptedModule {
  std::string name;
  bool is_saved = false;  // itself, as its modules_to_save have it
  // The index of the matrix whose rows' lengths the last tensor's values are above: PEFT keeps whole magnitudes.
  std::optional<std::size_t> measured{};
  // "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" with its parameter, and the others.
  std::vector<HuggingfaceTensor> tensors{};
};

// Those of all adapters, A, B and the magnitude, if any, of each, and then those of the modules that are trained beside
// them. PEFT keeps an embedding that it trains and the head that a model ties to it both, which are of one parameter
// here. Throws Error(bad_recipe) for adapters to query, key and value of GPT-2, which transformers keeps as one matrix.
std::vector<AdaptedModule> adapted_modules(const Graph& graph, HuggingfaceType type);

}  // namespace llmtrain
