// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/graph/graph.h"
#include "core/parameters/parameter_store.h"

namespace llmtrain {

// Fills `flat`, fp32 memory of the store's parameters, as the Graph specifies. The values of the whole parameter, of
// which this rank holds a part, depend only on (seed, its name); padding is zero.
void initialize_weights(const at::Tensor& flat, const ParameterStore& store, const Graph& graph, std::int64_t seed);

}  // namespace llmtrain
