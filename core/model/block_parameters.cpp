// SPDX-License-Identifier: Apache-2.0
#include "core/model/block_parameters.h"

namespace llmtrain {

BlockParameters::BlockParameters(const Graph& graph, std::size_t block, ParameterStore& store, const TensorSplit& split)
    : graph_(graph), block_(block), store_(store), split_(split) {}

std::size_t BlockParameters::index(ParameterRole role) const {
  return static_cast<std::size_t>(&graph_.parameter(block_, role) - graph_.parameters.data());
}

std::optional<std::size_t> BlockParameters::optional_index(ParameterRole role) const {
  if (!graph_.has_parameter(block_, role)) return std::nullopt;
  return index(role);
}

NormLayer BlockParameters::norm(ParameterRole weight, ParameterRole bias) const {
  return {store_, model().norm, model().norm_eps, index(weight), optional_index(bias)};
}

ColumnLinear BlockParameters::column_linear(ParameterRole first_weight, ParameterRole last_weight,
                                            ParameterRole first_bias, ParameterRole last_bias) const {
  std::optional<LinearLayer::Group> bias;
  if (graph_.has_parameter(block_, first_bias)) bias = LinearLayer::Group{index(first_bias), index(last_bias)};
  return {LinearLayer(store_, {index(first_weight), index(last_weight)}, bias), split_};
}

RowLinear BlockParameters::row_linear(ParameterRole weight, ParameterRole bias) const {
  return {store_, index(weight), optional_index(bias), split_};
}

}  // namespace llmtrain
