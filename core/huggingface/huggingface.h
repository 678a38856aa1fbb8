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
// gpt2, llama, and those members of the Llama family that recipe keys can express (qwen2: query-key-value biases;
// qwen3: query-key norms; mistral without a sliding window). fp16 weights become fp32. Dropout and initialization in
// config.json are ignored. Files may be links, as in the hub's cache; an index may not name files outside the folder.
// Throws Error(missing_input); Error(bad_data) that names every tensor which is missing, unexpected or of another
// shape; Error(bad_recipe) that names every key of `model` that disagrees with config.json.
NamedWeights load_huggingface(const std::filesystem::path& folder, const Graph& graph);

// Writes a folder that transformers' from_pretrained loads with no missing and no unexpected key, in the dtype of the
// weights. Each file is replaced as a whole; other files of the folder stay. Throws Error(bad_recipe) that names the
// keys of `model` that no transformers architecture supports (gpt-rope has no counterpart), Error(bad_data) for weights
// that are not the Graph's, Error(cannot_write).
void save_huggingface(const std::filesystem::path& folder, const Graph& graph, const NamedWeights& weights);

}  // namespace llmtrain
