// SPDX-License-Identifier: Apache-2.0
#include "core/graph/sharding.h"

#include <algorithm>
#include <cstddef>

namespace llmtrain {

namespace {

using Role = ParameterRole;

std::int64_t divide_up(std::int64_t value, std::int64_t parts) { return (value + parts - 1) / parts; }

// An adapter's output follows that of its matrix.
bool belongs_to_kv_heads(const Parameter& parameter) {
  const Role role = parameter.adapts.value_or(parameter.role);
  return role == Role::key_weight || role == Role::value_weight || role == Role::key_bias || role == Role::value_bias;
}

bool grows_with_vocabulary(Role role) { return role == Role::token_embedding || role == Role::head_weight; }

// Gives one of `ranks` ranks its share of an axis whose size they divide.
void split_axis(LocalPart& part, std::size_t axis, std::int64_t ranks, std::int64_t position) {
  part.shape[axis] /= ranks;
  part.real_shape[axis] = part.shape[axis];
  part.offset[axis] = position * part.shape[axis];
}

void split_vocabulary(LocalPart& part, std::int64_t ranks, std::int64_t position) {
  const std::int64_t vocabulary = part.shape[0];
  // All ranks get equally many rows, so that collectives and flat memory are uniform; the last ranks' rows may be
  // padding.
  part.shape[0] = divide_up(vocabulary, ranks);
  part.offset[0] = std::min(position * part.shape[0], vocabulary);
  part.real_shape[0] = std::min(part.shape[0], vocabulary - part.offset[0]);
}

void split_kv_heads(LocalPart& part, const ModelRecipe& model, const ShardPlace& place) {
  // With fewer heads than ranks, neighbouring ranks hold copies of one head: those whose query heads read it.
  const std::int64_t parts = std::min(model.kv_heads, place.degrees.tensor);
  part.copies = place.degrees.tensor / parts;
  part.copy = place.tensor % part.copies;
  split_axis(part, 0, parts, place.tensor / part.copies);
}

// Experts are divided among ranks, and each expert's matrices among expert_tensor of them.
void split_expert(LocalPart& part, ShardAxis axis, const ShardPlace& place) {
  const std::int64_t ranks = place.degrees.expert_tensor, position = place.expert_tensor;
  split_axis(part, 0, place.degrees.expert, place.expert);
  part.copies = axis == ShardAxis::none ? ranks : 1;
  part.copy = axis == ShardAxis::none ? position : 0;
  if (axis == ShardAxis::none) return;
  split_axis(part, axis == ShardAxis::output ? 1 : part.shape.size() - 1, ranks, position);
}

// Each tensor rank routes tokens of its own.
bool is_of_router(Role role) {
  return role == Role::router_weight || role == Role::router_projection_weight || role == Role::router_temperature;
}

}  // namespace

LocalPart local_part(const ModelRecipe& model, const Parameter& parameter, const ShardPlace& place) {
  LocalPart part{parameter.shape, parameter.shape, std::vector<std::int64_t>(parameter.shape.size(), 0),
                 place.degrees.tensor, place.tensor};
  if (parameter.has_expert_axis) {
    split_expert(part, parameter.shard_axis, place);
    return part;
  }
  if (parameter.shard_axis == ShardAxis::none) return part;
  // Split parameters have one copy unless heads are repeated; the initial values were those of a parameter that every
  // rank holds.
  part.copies = 1;
  part.copy = 0;
  if (belongs_to_kv_heads(parameter)) {
    split_kv_heads(part, model, place);
  } else if (grows_with_vocabulary(parameter.role)) {
    split_vocabulary(part, place.degrees.tensor, place.tensor);
  } else {
    const std::size_t axis = parameter.shard_axis == ShardAxis::output ? 0 : parameter.shape.size() - 1;
    split_axis(part, axis, place.degrees.tensor, place.tensor);
  }
  return part;
}

GradientSum gradient_sum(const ModelRecipe& model, const Parameter& parameter, std::int64_t tensor,
                         bool splits_sequence) {
  if (tensor == 1 || parameter.has_expert_axis) return GradientSum::none;
  if (parameter.shard_axis != ShardAxis::none) {
    const bool repeats = belongs_to_kv_heads(parameter) && tensor > model.kv_heads;
    return repeats ? GradientSum::same_heads : GradientSum::none;
  }
  // One weight for all heads, of which each rank has some.
  const bool is_of_heads = parameter.role == Role::query_norm_weight || parameter.role == Role::key_norm_weight;
  // Each rank sees what passes through its part of the adapter's other matrix.
  const bool is_half_split = parameter.adapts.has_value();
  const bool is_partial = splits_sequence || is_of_heads || is_half_split || is_of_router(parameter.role);
  return is_partial ? GradientSum::tensor_group : GradientSum::none;
}

std::int64_t local_vocabulary(const ModelRecipe& model, std::int64_t tensor) {
  return divide_up(model.vocab_size, tensor);
}

std::int64_t local_kv_heads(const ModelRecipe& model, std::int64_t tensor) {
  // At least one: with fewer heads than ranks a head is repeated.
  return std::max<std::int64_t>(1, model.kv_heads / tensor);
}

std::int64_t local_elements(const ModelRecipe& model, const Parameter& parameter, const ShardDegrees& degrees) {
  const std::int64_t elements = parameter.elements();
  if (parameter.has_expert_axis) {
    const std::int64_t features = parameter.shard_axis == ShardAxis::none ? 1 : degrees.expert_tensor;
    return elements / degrees.expert / features;
  }
  if (parameter.shard_axis == ShardAxis::none) return elements;
  if (belongs_to_kv_heads(parameter)) return elements / model.kv_heads * local_kv_heads(model, degrees.tensor);
  if (grows_with_vocabulary(parameter.role)) return local_vocabulary(model, degrees.tensor) * model.hidden_size;
  // Rounded up, so that layouts that do not divide can still be estimated.
  return divide_up(elements, degrees.tensor);
}

}  // namespace llmtrain
