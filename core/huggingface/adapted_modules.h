// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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
  // The matrices of an adapter's module, indices into Graph::parameters, that transformers keeps below each other and
  // some of which have adapters: one, or of GPT-2's c_attn those of query, key and value.
  std::vector<std::size_t> matrices{};
  // The tensors of a saved module: "base_model.model.model.norm.weight" with its parameter, and a bias, if it has one.
  std::vector<HuggingfaceTensor> tensors{};

  // "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" of "lora_A.weight".
  std::string tensor(const std::string& suffix) const;
};

// Those of all adapters, and then those of the modules that are trained beside them. PEFT keeps an embedding that it
// trains and the head that a model ties to it both, which are of one parameter here.
std::vector<AdaptedModule> adapted_modules(const Graph& graph, HuggingfaceType type);

// By the names of the modules with several adapters the rank and the alpha of PEFT's one that joins them
// (core/huggingface/joined_adapters.h): its scale is that of each.
std::map<std::string, std::int64_t> joined_ranks(const Graph& graph, const std::vector<AdaptedModule>& modules);
std::map<std::string, double> joined_alphas(const Graph& graph, const std::vector<AdaptedModule>& modules);

}  // namespace llmtrain
