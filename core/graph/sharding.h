// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"

namespace llmtrain {

// Over how many ranks a parameter is split before ZeRO shards it.
struct ShardDegrees {
  std::int64_t tensor = 1;
  std::int64_t expert = 1;         // the axis of experts
  std::int64_t expert_tensor = 1;  // the features of one expert
};

// Position of one rank among those that split the parameters.
struct ShardPlace {
  ShardDegrees degrees;
  std::int64_t tensor = 0;         // below degrees.tensor
  std::int64_t expert = 0;         // below degrees.expert
  std::int64_t expert_tensor = 0;  // below degrees.expert_tensor
};

// The part of a parameter that one rank holds. Padding follows everything real, so that the real elements come first in
// the rank's memory; a rank may hold only padding.
struct LocalPart {
  std::vector<std::int64_t> shape;       // in the rank's memory
  std::vector<std::int64_t> real_shape;  // without padding; only the first axis can be shorter
  std::vector<std::int64_t> offset;      // of its first element in the whole parameter
  // How many ranks of the tensor group hold this part, and which of them this rank is (0 is the first). The ranks that
  // share repeated units are adjacent. Of experts: how many of the ranks that split them; other ranks with
  // the same part see other tokens, as data ranks do.
  std::int64_t copies = 1;
  std::int64_t copy = 0;

  std::int64_t elements() const { return element_count(shape); }            // padding included
  std::int64_t real_elements() const { return element_count(real_shape); }  // without
};

// The first of the graph's parameters that ranks in these numbers do not divide: of an even split some would have more
// units than others, of a repeated one some more copies of theirs than others, or one more experts. Null where they
// divide all, as the rules of recipes ask for by the keys that the units are from (core/recipe/rules).
const Parameter* undivided(const Graph& graph, const ShardDegrees& degrees);

// What ranks that hold different experts must divide: the greatest that divides the number of every layer's experts, 0
// without any.
std::int64_t common_experts(const Graph& graph);

// Units of a split that one rank has, padding and repeated ones included.
std::int64_t local_units(const Split& split, std::int64_t ranks);

// The part of a parameter that the rank at `place` holds. The degrees divide the units of what they split evenly.
LocalPart local_part(const Parameter& parameter, const ShardPlace& place);

// Elements of a parameter on one rank, padding and repeated units included.
std::int64_t local_elements(const Parameter& parameter, const ShardDegrees& degrees);

// How many neighbours of so many ranks hold copies of each unit of a split: 1 unless it is repeated and has fewer
// units.
std::int64_t copies_of(const Split& split, std::int64_t ranks);
// These numbers of all that the graph repeats, as the heads of keys and values where there are fewer than tensor ranks:
// ascending, without 1.
std::vector<std::int64_t> copy_counts(const Graph& graph, std::int64_t tensor);

// With which ranks a rank of a tensor group sums a parameter's gradient once per step, because each rank sees only part
// of the work of what they hold in common. None: the parameter belongs to one rank, or all compute the same gradient.
// The tensor group: what sums_over_ranks, and where sequences are split over the ranks all of which every rank has the
// whole, as that works on rows of tokens (Korthikanti et al., arXiv 2205.05198). Copies: the neighbours that hold
// copies of the same units (copies_of()).
enum class GradientSum { none, tensor_group, copies };
GradientSum gradient_sum(const Parameter& parameter, std::int64_t tensor, bool splits_sequence);

}  // namespace llmtrain
