// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/model/layers/layers.h"
#include "core/model/layers/low_rank_adapter.h"
#include "core/model/layers/tensor_split.h"
#include "core/parameters/parameter_store.h"

namespace llmtrain {

// Finds the parameters of one block by their names in it, wherever they are stored, and builds layers from them.
class BlockParameters {
 public:
  // `scaling`: of the linear layers within transformer layers; none without FP8.
  BlockParameters(const Graph& graph, std::size_t block, const ParameterStores& stores, const TensorSplit& split,
                  std::optional<Fp8Scaling> scaling);

  const Block& block() const { return graph_.blocks[block_]; }
  const TensorSplit& split() const { return split_; }
  // The key of what is drawn at random at one place of the block: from the block's name in the model, so that masks do
  // not depend on the pipeline's layout.
  std::uint64_t random_site(const std::string& name) const;
  // Where tokens go whatever the routers say; null: where these say.
  const std::shared_ptr<const ReplayedRouting>& routing() const { return graph_.routing; }
  double loss_coefficient(std::string_view term) const { return graph_.loss_coefficient(block_, term); }
  bool multiplies_fp8() const { return scaling_.has_value(); }
  bool has(std::string_view name) const { return graph_.has_parameter(block_, name); }
  // How many heads, features or rows, whichever the parameter is split by, this rank has.
  std::int64_t local_units(std::string_view name) const;
  // The same on all ranks together.
  std::int64_t units(std::string_view name) const { return graph_.parameter(block_, name).split.units; }

  // The parameter with those that are multiplied as one with it. Throws std::out_of_range when the block has none of
  // that name.
  BoundParameter bind(std::string_view name) const;
  // Without what is multiplied as one with it.
  BoundParameter bind_alone(std::string_view name) const;
  std::optional<BoundParameter> bind_if_there(std::string_view name) const;
  // Throws std::logic_error where something of the block has not been bound, as when a module asks for a misspelt name
  // that a block may lack.
  void require_all_bound() const;

  // Layers of the parameters `name`.weight and, where the block has it, `name`.bias, with what is multiplied as one
  // with them.
  NormLayer norm(const std::string& name, const NormSettings& settings) const;
  ColumnLinear column_linear(const std::string& name) const;
  RowLinear row_linear(const std::string& name) const;

 private:
  BoundParameter bind(std::size_t first, std::size_t last) const;
  // To the matrices of the product that begins with `weight`; none where they are not adapted.
  std::vector<LowRankAdapter> adapters(const std::string& weight) const;
  // How operands of the linear layer with this weight are scaled; none where it takes no FP8.
  std::optional<Fp8Scaling> scaling_of(const std::string& weight) const;

  const Graph& graph_;
  std::size_t block_;
  const ParameterStores& stores_;
  TensorSplit split_;
  std::optional<Fp8Scaling> scaling_;
  mutable std::vector<std::size_t> bound_;  // indices into Graph::parameters
};

}  // namespace llmtrain
