// SPDX-License-Identifier: Apache-2.0
#include "core/graph/sharding.h"

#include <algorithm>

namespace llmtrain {

namespace {

using Role = ParameterRole;

std::int64_t divide_up(std::int64_t value, std::int64_t parts) { return (value + parts - 1) / parts; }

bool belongs_to_kv_heads(Role role) {
  return role == Role::key_weight || role == Role::value_weight || role == Role::key_bias || role == Role::value_bias;
}

}  // namespace

std::int64_t local_vocabulary(const ModelRecipe& model, std::int64_t tensor) {
  return divide_up(model.vocab_size, tensor);
}

std::int64_t local_kv_heads(const ModelRecipe& model, std::int64_t tensor) {
  return std::max<std::int64_t>(1, model.kv_heads / tensor);
}

std::int64_t local_elements(const ModelRecipe& model, const Parameter& parameter, const ShardDegrees& degrees) {
  const std::int64_t elements = parameter.elements();
  if (parameter.has_expert_axis) {
    const std::int64_t features = parameter.shard_axis == ShardAxis::none ? 1 : degrees.expert_tensor;
    return elements / degrees.expert / features;
  }
  if (parameter.shard_axis == ShardAxis::none) return elements;
  if (belongs_to_kv_heads(parameter.role)) return elements / model.kv_heads * local_kv_heads(model, degrees.tensor);
  if (parameter.role == Role::token_embedding || parameter.role == Role::head_weight)
    return local_vocabulary(model, degrees.tensor) * model.hidden_size;
  return divide_up(elements, degrees.tensor);
}

}  // namespace llmtrain
