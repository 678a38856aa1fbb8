// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace llmtrain {

// What every rank tells all others once a step, in float64: its part of the loss, of the gradients' squared norm, and
// whether it was asked to stop. Each adds up what all have said, in the order of the ranks.
constexpr std::size_t step_scalars = 3;

}  // namespace llmtrain
