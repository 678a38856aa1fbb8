// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/block_parameters.h"

#include <algorithm>
#include <stdexcept>

#include "core/base/hash.h"
#include "core/graph/sharding.h"

namespace llmtrain {

BlockParameters::BlockParameters(const Graph& graph, std::size_t block, const ParameterStores& stores,
                                 const TensorSplit& split, std::optional<Fp8Scaling> scaling)
    : graph_(graph), block_(block), stores_(stores), split_(split), scaling_(scaling) {}

BoundParameter BlockParameters::bind(std::string_view name) const {
  const std::size_t first = graph_.index_of(graph_.parameter(block_, name));
  return bind(first, graph_.last_of_product(first));
}

BoundParameter BlockParameters::bind(std::size_t first, std::size_t last) const {
  for (std::size_t index = first; index <= last; ++index) bound_.push_back(index);
  // By the first one's store: the parameters of a product are always in one store.
  return {stores_.of(first), first, last};
}

BoundParameter BlockParameters::bind_alone(std::string_view name) const {
  const std::size_t index = graph_.index_of(graph_.parameter(block_, name));
  return bind(index, index);
}

std::optional<BoundParameter> BlockParameters::bind_if_there(std::string_view name) const {
  if (!has(name)) return std::nullopt;
  return bind(name);
}

void BlockParameters::require_all_bound() const {
  const auto require = [&](std::size_t index) {
    if (std::ranges::find(bound_, index) == bound_.end())
      throw std::logic_error(graph_.parameters[index].name + " is bound by no module, which may look for another name");
  };
  std::ranges::for_each(block().parameters, require);
  std::ranges::for_each(block().shared, require, &Block::Shared::parameter);
}

std::int64_t BlockParameters::local_units(std::string_view name) const {
  return llmtrain::local_units(graph_.parameter(block_, name).split, split_.ranks());
}

NormLayer BlockParameters::norm(const std::string& name, const NormSettings& settings) const {
  return {settings.kind, settings.epsilon, bind(name + ".weight"), bind_if_there(name + ".bias")};
}

std::optional<Fp8Scaling> BlockParameters::scaling_of(const std::string& weight) const {
  const Parameter& first = graph_.parameter(block_, weight);
  if (!scaling_ || !first.takes_fp8()) return std::nullopt;
  return scaling_->of(graph_.index_of(first));
}

std::vector<LowRankAdapter> BlockParameters::adapters(const std::string& weight) const {
  std::vector<LowRankAdapter> adapters;
  const std::size_t first = graph_.index_of(graph_.parameter(block_, weight));
  std::int64_t feature = 0;
  for (std::size_t index = first; index <= graph_.last_of_product(first); ++index) {
    const Parameter& matrix = graph_.parameters[index];
    if (const auto& of_matrix = matrix.adapter) {
      const std::size_t a = of_matrix->a, b = a + 1;
      std::optional<LowRankAdapter::Magnitude> magnitude;
      // Where ranks split the rows they meet for their lengths.
      if (of_matrix->has_magnitude)
        magnitude = LowRankAdapter::Magnitude{
            bind(b + 1, b + 1), matrix.split.axis == 1 ? split_ : TensorSplit(nullptr, ActivationRows::whole)};
      adapters.emplace_back(
          bind(a, a), bind(b, b), magnitude,
          LowRankAdapter::Settings{.first = feature,
                                   .scale = of_matrix->scale,
                                   .input = graph_.parameters[a].shape.back(),
                                   .dropout = of_matrix->dropout,
                                   .dropout_site = random_site(graph_.parameters[a].local_name + ".input")});
    }
    feature += stores_.of(index).part(index).shape.front();
  }
  return adapters;
}

ColumnLinear BlockParameters::column_linear(const std::string& name) const {
  const std::string weight = name + ".weight";
  return {LinearLayer(bind(weight), bind_if_there(name + ".bias"), scaling_of(weight), adapters(weight)), split_};
}

RowLinear BlockParameters::row_linear(const std::string& name) const {
  const std::string weight = name + ".weight";
  return {bind(weight), bind_if_there(name + ".bias"), scaling_of(weight), adapters(weight), split_};
}

std::uint64_t BlockParameters::random_site(const std::string& name) const {
  return stable_hash(block().name + "." + name);
}

}  // namespace llmtrain
