// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/block_parameters.h"

namespace llmtrain {

BlockParameters::BlockParameters(const Graph& graph, std::size_t block, const ParameterStores& stores,
                                 const TensorSplit& split, std::optional<Fp8Scaling> scaling)
    : graph_(graph), block_(block), stores_(stores), split_(split), scaling_(scaling) {}

BoundParameter BlockParameters::bind(ParameterRole first, ParameterRole last) const {
  const std::size_t begin = graph_.index_of(graph_.parameter(block_, first));
  // By the first one's store: consecutive parameters of a block are always in one store.
  return {stores_.of(begin), begin, graph_.index_of(graph_.parameter(block_, last))};
}

std::optional<BoundParameter> BlockParameters::bind_if_there(ParameterRole role) const {
  if (!has(role)) return std::nullopt;
  return bind(role);
}

BoundParameter BlockParameters::bind_logits_weight() const {
  // With tied embeddings this is another block's parameter, possibly one of another stage.
  const std::size_t index = graph_.index_of(graph_.logits_weight());
  return {stores_.of(index), index, index};
}

NormLayer BlockParameters::norm(ParameterRole weight, ParameterRole bias) const {
  return {model().norm, model().norm_eps, bind(weight), bind_if_there(bias)};
}

std::optional<Fp8Scaling> BlockParameters::scaling_of(ParameterRole weight) const {
  const Parameter& first = graph_.parameter(block_, weight);
  if (!scaling_ || !first.takes_fp8()) return std::nullopt;
  return scaling_->of(graph_.index_of(first));
}

std::vector<LowRankAdapter> BlockParameters::adapters(ParameterRole first, ParameterRole last) const {
  std::vector<LowRankAdapter> adapters;
  const std::size_t end = graph_.index_of(graph_.parameter(block_, last)) + 1;
  std::int64_t feature = 0;
  for (std::size_t index = graph_.index_of(graph_.parameter(block_, first)); index < end; ++index) {
    const ParameterRole role = graph_.parameters[index].role;
    const auto find = [&](ParameterRole of) { return graph_.adapter(block_, of, role); };
    if (const Parameter* a = find(ParameterRole::adapter_input)) {
      const std::size_t in = graph_.index_of(*a), out = graph_.index_of(*find(ParameterRole::adapter_output));
      adapters.emplace_back(BoundParameter(stores_.of(in), in, in), BoundParameter(stores_.of(out), out, out), feature,
                            model().lora->scale());
    }
    feature += stores_.of(index).part(index).shape.front();
  }
  return adapters;
}

ColumnLinear BlockParameters::column_linear(ParameterRole first_weight, ParameterRole last_weight,
                                            ParameterRole first_bias, ParameterRole last_bias) const {
  std::optional<BoundParameter> bias;
  if (has(first_bias)) bias = bind(first_bias, last_bias);
  return {
      LinearLayer(bind(first_weight, last_weight), bias, scaling_of(first_weight), adapters(first_weight, last_weight)),
      split_};
}

RowLinear BlockParameters::row_linear(ParameterRole weight, ParameterRole bias) const {
  return {bind(weight), bind_if_there(bias), scaling_of(weight), adapters(weight, weight), split_};
}

}  // namespace llmtrain
