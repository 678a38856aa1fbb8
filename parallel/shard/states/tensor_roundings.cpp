// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/tensor_roundings.h"

#include <cstddef>
#include <string>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace llmtrain {

kernels::StochasticRounding element_places(const std::vector<std::int64_t>& shape, const LocalPart& part) {
  kernels::StochasticRounding places;
  std::int64_t run = 1, rows = 1, distance = 1;  // elements that follow each other, and how many such runs
  bool has_gaps = false;
  for (std::size_t axis = shape.size(); axis-- > 0; distance *= shape[axis]) {
    places.first += part.offset[axis] * distance;
    const std::int64_t count = part.shape[axis];
    if (count == 1) continue;
    if (!has_gaps && distance == run) {
      run *= count;
      continue;
    }
    if (has_gaps && distance != rows * places.stride)
      throw Error(ExitCode::internal_error, "a parameter is split along two axes: its elements are not in equal runs");
    if (!has_gaps) places.stride = distance;
    has_gaps = true;
    rows *= count;
  }
  if (has_gaps) places.run = run;
  return places;
}

std::vector<kernels::StochasticRounding> tensor_roundings(const Graph& graph, const ParameterStore& store,
                                                          std::int64_t seed) {
  std::vector<kernels::StochasticRounding> roundings;
  for (const FlatRange& range : store.ranges()) {
    const Parameter& parameter = graph.parameters[range.parameter];
    roundings.push_back(element_places(parameter.shape, store.part(range.parameter)));
    roundings.back().key = stable_hash(std::to_string(seed) + "/rounding/" + parameter.name);
  }
  return roundings;
}

}  // namespace llmtrain
