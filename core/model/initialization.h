// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/graph/graph.h"
#include "core/model/parameter_store.h"

namespace llmtrain {

// Fills a store's master weights as the Graph says. A parameter's values depend on (seed, its name) only.
void initialize_weights(ParameterStore& store, const Graph& graph, std::int64_t seed);

}  // namespace llmtrain
