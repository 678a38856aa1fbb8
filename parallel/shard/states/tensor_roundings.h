// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/sharding.h"
#include "core/parameters/parameter_store.h"
#include "kernels/random/stochastic_rounding.h"

namespace llmtrain {

// Where the elements of this part are in a parameter of this shape, as StochasticRounding says it, without a key. At
// most one axis beside the first may be split, as the graph's parameters are: throws Error(internal_error) for others.
kernels::StochasticRounding element_places(const std::vector<std::int64_t>& shape, const LocalPart& part);

// By the store's ranges how what is stored of each is rounded at random, but for the step: the keys are the tensors'
// own numbers, which depend on the seed and the name alone.
std::vector<kernels::StochasticRounding> tensor_roundings(const Graph& graph, const ParameterStore& store,
                                                          std::int64_t seed);

}  // namespace llmtrain
