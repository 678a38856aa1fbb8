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

}  // namespace llmtrain
