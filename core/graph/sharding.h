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
  // share a head of keys and values are adjacent. Of experts: how many of the ranks that split them; other ranks with
  // the same part see other tokens, as data ranks do.
  std::int64_t copies = 1;
  std::int64_t copy = 0;

  std::int64_t elements() const { return element_count(shape); }            // padding included
  std::int64_t real_elements() const { return element_count(real_shape); }  // without
};

// Rows of the vocabulary on one rank; where `tensor` does not divide the vocabulary it is padded to a multiple.
std::int64_t local_vocabulary(const ModelRecipe& model, std::int64_t tensor);

// Key and value heads on one rank; where there are fewer heads than ranks, several ranks hold the same one.
std::int64_t local_kv_heads(const ModelRecipe& model, std::int64_t tensor);

// The part of a parameter that the rank at `place` holds. The degrees divide what they split, but for the vocabulary,
// which is padded, and the heads of keys and values, which are repeated.
LocalPart local_part(const ModelRecipe& model, const Parameter& parameter, const ShardPlace& place);

// Elements of a parameter on one rank, padding and repeated heads included.
std::int64_t local_elements(const ModelRecipe& model, const Parameter& parameter, const ShardDegrees& degrees);

// With which ranks a rank of a tensor group sums a parameter's gradient once per step, because each rank sees only part
// of the work of what they hold in common. None: the parameter belongs to one rank, or all compute the same gradient.
// The tensor group: norms of query and key heads, routers, the matrix of an adapter that is not split, and where
// sequences are split over the ranks everything that works on rows of tokens (Korthikanti et al., arXiv 2205.05198).
// Same heads: the ranks that share heads of keys and values.
enum class GradientSum { none, tensor_group, same_heads };
GradientSum gradient_sum(const ModelRecipe& model, const Parameter& parameter, std::int64_t tensor,
                         bool splits_sequence);

}  // namespace llmtrain
