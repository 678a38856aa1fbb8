// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "core/huggingface/huggingface.h"

namespace llmtrain {

// The weights of the Graph's model without adapters: each adapted matrix is W + alpha ÷ rank · B·A, computed in fp32
// and rounded to its type.
NamedWeights merge_adapters(const Graph& graph, NamedWeights weights);

// Writes the adapters of the Graph's model, with their weights in fp32 or bf16, as a folder that
// peft.PeftModel.from_pretrained() loads over the model that save_huggingface() writes without them:
// adapter_config.json and adapter_model.safetensors. `base` is what the configuration names as that model, or empty.
// Throws Error(bad_recipe) for a model without adapters, for one that no transformers architecture supports, and for
// adapters to query, key and value of GPT-2, which transformers keeps as one matrix; Error(cannot_write).
void save_peft(const std::filesystem::path& folder, const Graph& graph, const NamedWeights& weights,
               const std::string& base);

// Loads such a folder, as PEFT wrote it or save_peft() did: the weights of the adapters of the Graph's model. fp16
// becomes fp32. Throws Error(missing_input); Error(bad_data) for a kind of adapter that model.lora has no keys for, and
// for tensors that are missing, unexpected or of another shape; Error(bad_recipe) where rank or alpha disagree.
NamedWeights load_peft(const std::filesystem::path& folder, const Graph& graph);

}  // namespace llmtrain
