// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/graph/graph.h"

namespace llmtrain {

// Over how many ranks a parameter is split before ZeRO shards it.
struct ShardDegrees {
  std::int64_t tensor = 1;
  std::int64_t expert = 1;         // the axis of experts
  std::int64_t expert_tensor = 1;  // the features of one expert
};

// Rows of the vocabulary on one rank: where `tensor` does not divide them they are padded to a multiple.
std::int64_t local_vocabulary(const ModelRecipe& model, std::int64_t tensor);

// Key and value heads on one rank: where there are fewer than ranks, several ranks hold the same one.
std::int64_t local_kv_heads(const ModelRecipe& model, std::int64_t tensor);

// Elements of a parameter on one rank, padding and repeated heads included.
std::int64_t local_elements(const ModelRecipe& model, const Parameter& parameter, const ShardDegrees& degrees);

}  // namespace llmtrain
