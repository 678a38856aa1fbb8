// SPDX-License-Identifier: Apache-2.0
#include "core/graph/fp8_products.h"

#include <algorithm>
#include <iterator>

namespace llmtrain {

std::vector<std::size_t> fp8_products(const Graph& graph) {
  std::vector<std::size_t> products;
  for (std::size_t index = 0; index < graph.parameters.size(); ++index) {
    const Parameter& parameter = graph.parameters[index];
    if (parameter.takes_fp8() && !parameter.has_expert_axis && parameter.joined != Joined::product)
      products.push_back(index);
  }
  return products;
}

std::vector<std::size_t> fp8_matrices(const Graph& graph) {
  std::vector<std::size_t> matrices;
  for (std::size_t index = 0; index < graph.parameters.size(); ++index)
    if (graph.parameters[index].takes_fp8() && !graph.parameters[index].is_frozen) matrices.push_back(index);
  return matrices;
}

std::size_t fp8_product_of(const Graph& graph, std::size_t parameter) {
  // The parts of a matrix are consecutive, and the first one begins it.
  const std::vector<std::size_t> products = fp8_products(graph);
  return *std::prev(std::upper_bound(products.begin(), products.end(), parameter));
}

}  // namespace llmtrain
