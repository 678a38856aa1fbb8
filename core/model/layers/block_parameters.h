// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/graph/graph.h"
#include "core/model/layers/layers.h"
#include "core/model/layers/low_rank_adapter.h"
#include "core/model/layers/other_ranks.h"
#include "core/parameters/parameter_store.h"

namespace llmtrain {

// Finds the parameters of one block by role, wherever they are stored, and builds layers from them.
class BlockParameters {
 public:
  // `scaling`: of the linear layers within transformer layers; none without FP8.
  BlockParameters(const Graph& graph, std::size_t block, const ParameterStores& stores, const TensorSplit& split,
                  std::optional<Fp8Scaling> scaling);

  const ModelRecipe& model() const { return graph_.model; }
  const Block& block() const { return graph_.blocks[block_]; }
  const TensorSplit& split() const { return split_; }
  // Where tokens go whatever the routers say; null: where these say.
  const std::shared_ptr<const ReplayedRouting>& routing() const { return graph_.routing; }
  bool multiplies_fp8() const { return scaling_.has_value(); }
  bool has(ParameterRole role) const { return graph_.has_parameter(block_, role); }

  // Throws std::out_of_range when the block has no parameter of that role.
  BoundParameter bind(ParameterRole role) const { return bind(role, role); }
  // The consecutive parameters first … last, which are in one store.
  BoundParameter bind(ParameterRole first, ParameterRole last) const;
  std::optional<BoundParameter> bind_if_there(ParameterRole role) const;
  // The weight that produces logits: the head's own, or with tied embeddings that of the embedding.
  BoundParameter bind_logits_weight() const;

  NormLayer norm(ParameterRole weight, ParameterRole bias) const;
  // A linear layer over the consecutive parameters first_weight … last_weight, with the biases that the block has.
  ColumnLinear column_linear(ParameterRole first_weight, ParameterRole last_weight, ParameterRole first_bias,
                             ParameterRole last_bias) const;
  RowLinear row_linear(ParameterRole weight, ParameterRole bias) const;

 private:
  // To the consecutive matrices first … last, which are one; none where they are not adapted.
  std::vector<LowRankAdapter> adapters(ParameterRole first, ParameterRole last) const;
  // Of a linear layer with this weight; none where it takes no FP8.
  std::optional<Fp8Scaling> scaling_of(ParameterRole weight) const;

  const Graph& graph_;
  std::size_t block_;
  const ParameterStores& stores_;
  TensorSplit split_;
  std::optional<Fp8Scaling> scaling_;
};

}  // namespace llmtrain
