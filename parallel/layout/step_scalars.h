// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace llmtrain {

// The number of scalars that every rank sends to all others once per step, in float64: its part of the loss, its part
// of the gradients' squared norm, and whether it was asked to stop. Each rank sums them in rank order.
constexpr std::size_t step_scalars = 3;

}  // namespace llmtrain
