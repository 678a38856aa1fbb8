// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The type that a model can be exported as. Throws Error(bad_recipe) that names the keys which no type supports.
HuggingfaceType huggingface_type_of(const ModelRecipe& model);

// A tensor of transformers and its content: parameters of the Graph, concatenated along their first axis (GPT-2 keeps
// query, key and value in one), then transposed where GPT-2 keeps weights as [input, output]. Of experts, which are one
// parameter here, each has a tensor of its own there.
struct HuggingfaceTensor {
  std::string name;
  std::vector<std::size_t> parameters;  // indices into Graph::parameters
  bool transposed = false;
  std::optional<std::int64_t> expert{};  // the index on the parameter's first axis, which the tensor lacks
  std::int64_t rows_before{};            // that nothing reads, before those of the parameters
  // Its shape there, where that has other axes than its one parameter, in the same order of elements; empty: it has
  // the same.
  std::vector<std::int64_t> stored{};

  std::vector<std::int64_t> shape(const Graph& graph) const;
};

// All tensors of a model without its adapters, in the order of the Graph.
std::vector<HuggingfaceTensor> huggingface_tensors(const Graph& graph, HuggingfaceType type);

// The name without the prefix of the whole model ("transformer.", "model."), which older files lack.
std::string without_model_prefix(std::string_view name, HuggingfaceType type);
// A constant row that BART adds to its logits.
inline constexpr std::string_view final_logits_bias = "final_logits_bias";
// The head's matrix where it is not the embedding's.
std::string_view head_tensor(HuggingfaceType type);
// The bias of an encoder's head, and its other name, which untied models read.
std::string head_bias(HuggingfaceType type);
std::string head_bias_beside(HuggingfaceType type);

}  // namespace llmtrain
