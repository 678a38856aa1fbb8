// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace llmtrain {

// The patterns of parameters' names that an entry of model.lora.targets stands for: itself, or, as users of PEFT write
// it, the name of a module of transformers ("q_proj"), or "all-linear" for all matrices of layers that can be adapted.
// GPT-2's c_attn stands for query, key and value, each of which gets an adapter of its own, and its c_proj for the
// output of attention and of the feed-forward.
std::vector<std::string> adapter_patterns(const std::string& target);

// Likewise the patterns of modules' names ("final_norm") that an entry of model.lora.modules_to_save stands for:
// itself, or those of a module of transformers, such as "embed_tokens" or "lm_head". A model with tied embeddings has
// no head of its own.
std::vector<std::string> module_patterns(const std::string& module);

}  // namespace llmtrain
