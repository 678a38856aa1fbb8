// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "core/graph/graph.h"
#include "core/model/norm_layer.h"
#include "core/model/parameter_store.h"
#include "core/model/split_linear.h"
#include "core/model/tensor_split.h"

namespace llmtrain {

// Finds the parameters of one block by role, and makes layers of them.
class BlockParameters {
 public:
  BlockParameters(const Graph& graph, std::size_t block, ParameterStore& store, const TensorSplit& split);

  const ModelRecipe& model() const { return graph_.model; }
  const Block& block() const { return graph_.blocks[block_]; }
  ParameterStore& store() const { return store_; }
  const TensorSplit& split() const { return split_; }
  std::size_t index(ParameterRole role) const;
  std::optional<std::size_t> optional_index(ParameterRole role) const;

  NormLayer norm(ParameterRole weight, ParameterRole bias) const;
  // A linear layer over the consecutive parameters first_weight … last_weight, with the biases that the block has.
  ColumnLinear column_linear(ParameterRole first_weight, ParameterRole last_weight, ParameterRole first_bias,
                             ParameterRole last_bias) const;
  RowLinear row_linear(ParameterRole weight, ParameterRole bias) const;

 private:
  const Graph& graph_;
  std::size_t block_;
  ParameterStore& store_;
  TensorSplit split_;
};

}  // namespace llmtrain
