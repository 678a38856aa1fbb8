// SPDX-License-Identifier: Apache-2.0
#include "core/graph/sharding.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>

namespace llmtrain {

namespace {

using Kind = Split::Kind;

std::int64_t divide_up(std::int64_t value, std::int64_t parts) { return (value + parts - 1) / parts; }

// Gives one of `ranks` ranks its share of an axis whose size they divide.
void split_axis(LocalPart& part, std::size_t axis, std::int64_t ranks, std::int64_t position) {
  part.shape[axis] /= ranks;
  part.real_shape[axis] = part.shape[axis];
  part.offset[axis] = position * part.shape[axis];
}

void split_padded(LocalPart& part, std::size_t axis, std::int64_t ranks, std::int64_t position) {
  const std::int64_t whole = part.shape[axis];
  // All ranks get equally many rows, so that collectives and flat memory are uniform; the last ranks' rows may be
  // padding.
  part.shape[axis] = divide_up(whole, ranks);
  part.offset[axis] = std::min(position * part.shape[axis], whole);
  part.real_shape[axis] = std::min(part.shape[axis], whole - part.offset[axis]);
}

// Gives one of `ranks` ranks what it holds of the axis. What is split has one copy unless units are repeated.
void divide(LocalPart& part, const Split& split, std::int64_t ranks, std::int64_t position) {
  part.copies = copies_of(split, ranks);
  part.copy = position % part.copies;
  switch (split.kind) {
    case Kind::none:
      part.copies = ranks;
      part.copy = position;
      break;
    case Kind::even:
    case Kind::repeated:
      // Neighbouring ranks hold copies of one unit: those whose other parameters work with it.
      split_axis(part, split.axis, ranks / part.copies, position / part.copies);
      break;
    case Kind::padded:
      split_padded(part, split.axis, ranks, position);
      break;
  }
}

bool divides(std::int64_t ranks, const Split& split) {
  switch (split.kind) {
    case Kind::none:
    case Kind::padded:
      return true;
    case Kind::even:
      return split.units % ranks == 0;
    case Kind::repeated:
      break;
  }
  return split.units % ranks == 0 || ranks % split.units == 0;
}

}  // namespace

std::int64_t copies_of(const Split& split, std::int64_t ranks) {
  return split.kind == Kind::repeated ? ranks / std::min(split.units, ranks) : 1;
}

const Parameter* undivided(const Graph& graph, const ShardDegrees& degrees) {
  const auto is_divided = [&](const Parameter& parameter) {
    if (!parameter.has_expert_axis) return divides(degrees.tensor, parameter.split);
    return parameter.shape.front() % degrees.expert == 0 && divides(degrees.expert_tensor, parameter.split);
  };
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    if (graph.blocks[block].alike != block) continue;
    for (const std::size_t index : graph.blocks[block].parameters)
      if (!is_divided(graph.parameters[index])) return &graph.parameters[index];
  }
  return nullptr;
}

std::int64_t common_experts(const Graph& graph) {
  std::int64_t experts = 0;
  for (const Parameter& parameter : graph.parameters)
    if (parameter.has_expert_axis) experts = std::gcd(experts, parameter.shape.front());
  return experts;
}

LocalPart local_part(const Parameter& parameter, const ShardPlace& place) {
  LocalPart part{parameter.shape, parameter.shape, std::vector<std::int64_t>(parameter.shape.size(), 0)};
  if (parameter.has_expert_axis) {
    // Experts are divided among ranks, and each expert's matrices among expert_tensor of them.
    split_axis(part, 0, place.degrees.expert, place.expert);
    divide(part, parameter.split, place.degrees.expert_tensor, place.expert_tensor);
  } else {
    divide(part, parameter.split, place.degrees.tensor, place.tensor);
  }
  return part;
}

GradientSum gradient_sum(const Parameter& parameter, std::int64_t tensor, bool splits_sequence) {
  if (tensor == 1 || parameter.has_expert_axis) return GradientSum::none;
  if (parameter.split.kind == Kind::repeated && tensor > parameter.split.units) return GradientSum::copies;
  if (parameter.split.kind != Kind::none) return GradientSum::none;
  return splits_sequence || parameter.sums_over_ranks ? GradientSum::tensor_group : GradientSum::none;
}

std::vector<std::int64_t> copy_counts(const Graph& graph, std::int64_t tensor) {
  std::set<std::int64_t> counts;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    // Those of the others that are alike are split alike.
    if (graph.blocks[block].alike != block) continue;
    for (const std::size_t index : graph.blocks[block].parameters)
      if (const Parameter& parameter = graph.parameters[index]; !parameter.has_expert_axis)
        counts.insert(copies_of(parameter.split, tensor));
  }
  counts.erase(1);
  return {counts.begin(), counts.end()};
}

std::int64_t local_units(const Split& split, std::int64_t ranks) {
  switch (split.kind) {
    case Kind::none:
      return split.units;
    case Kind::even:
      return split.units / ranks;
    case Kind::repeated:
      return std::max<std::int64_t>(1, split.units / ranks);
    case Kind::padded:
      break;
  }
  return divide_up(split.units, ranks);
}

std::int64_t local_elements(const Parameter& parameter, const ShardDegrees& degrees) {
  const std::int64_t elements = parameter.elements();
  const Split& split = parameter.split;
  if (parameter.has_expert_axis)
    return elements / degrees.expert / (split.kind == Kind::none ? 1 : degrees.expert_tensor);
  switch (split.kind) {
    case Kind::none:
      return elements;
    case Kind::even:
      break;
    case Kind::repeated:
    case Kind::padded:
      return elements / split.units * local_units(split, degrees.tensor);
  }
  // Rounded up, so that layouts that do not divide can still be estimated.
  return divide_up(elements, degrees.tensor);
}

}  // namespace llmtrain
