// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "core/graph/graph.h"
#include "core/parameters/parameter_store.h"

namespace llmtrain {

// A flat, contiguous tensor of `elements`. On the CPU it has pages of its own, huge ones where the system grants them
// (an optimizer pass over gigabytes otherwise spends its time on page tables), reads as zeros, and takes no memory
// before it is touched; on a GPU it is an ordinary zeroed tensor. Throws std::bad_alloc.
at::Tensor make_flat_memory(std::int64_t elements, at::ScalarType type, const at::Device& device);

// The initial values of elements [begin, end) of the store's flat memory, as the Graph specifies, in pieces of at most
// about 16 MiB on the host, in fp32 and in order: calls take(begin of the piece, its values), which are taken when it
// returns. The values of a whole parameter, of which this rank holds a part, depend only on (seed, its name); padding
// is zero.
using TakeWeights = std::function<void(std::int64_t begin, const at::Tensor& values)>;
void for_initial_weights(const ParameterStore& store, const Graph& graph, std::int64_t seed, std::int64_t begin,
                         std::int64_t end, const TakeWeights& take);

}  // namespace llmtrain
