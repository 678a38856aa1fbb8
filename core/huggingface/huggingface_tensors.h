// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/huggingface/huggingface_config.h"

namespace llmtrain {

// A tensor of transformers and its content: parameters of the Graph, concatenated along their first axis (GPT-2 keeps
// query, key and value in one), then transposed where GPT-2 keeps weights as [input, output].
struct HuggingfaceTensor {
  std::string name;
  std::vector<std::size_t> parameters;  // indices into Graph::parameters
  bool transposed = false;

  std::vector<std::int64_t> shape(const Graph& graph) const;
};

// All tensors of a model, in the order of the Graph.
std::vector<HuggingfaceTensor> huggingface_tensors(const Graph& graph, HuggingfaceType type);

// The name without the prefix of the whole model ("transformer.", "model."), which older files lack.
std::string without_model_prefix(std::string_view name, HuggingfaceType type);

// Constant buffers that older versions saved beside the weights.
bool is_huggingface_buffer(std::string_view name);

}  // namespace llmtrain
