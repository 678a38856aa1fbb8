// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain {

// What a training pass of a layer with experts finds, on the layer's device: nobody waits for it before a step ends.
// Undefined of other layers.
struct LayerRouting {
  at::Tensor sums;    // float64, as RoutingValues
  at::Tensor chosen;  // float64 [E]: for each expert the tokens of the micro-batch that choose it
};

}  // namespace llmtrain
