// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "core/graph/graph.h"

namespace llmtrain {

// Weights by the Graph's parameter names, fp32 or bf16, on the CPU.
using NamedWeights = std::map<std::string, at::Tensor>;

// Loads config.json and model.safetensors (or the sharded index) of a folder that transformers' save_pretrained wrote:
// gpt2, llama, and the members of the Llama family that our keys can express (qwen2: query-key-value biases; qwen3:
// query-key norms; mistral without a sliding window). Throws Error(missing_input), Error(bad_data), and
// Error(bad_recipe) that names every key of `model` that disagrees with config.json, all at once.
NamedWeights load_huggingface(const std::filesystem::path& folder, const Graph& graph);

// Writes a folder that transformers' from_pretrained loads with no missing and no unexpected key. Throws
// Error(bad_recipe) that names the keys of `model` that no transformers architecture has (gpt-rope has none).
void save_huggingface(const std::filesystem::path& folder, const Graph& graph, const NamedWeights& weights);

}  // namespace llmtrain
