// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/graph/operators/operator_lists.h"

namespace llmtrain {

// Bytes by which the values that a block and its stage pass on differ from what the block's list counts, which is its
// own tensors alone.
struct HeldValues {
  double repeated = 0;         // of inputs that an earlier block of the stage keeps, too: one tensor, counted twice
  double beside_forward = 0;   // of what only later blocks or stages read, alive while this one's forward runs
  double beside_backward = 0;  // of the gradients of such values, alive while its backward runs
};

// Those of each of a stage's blocks, where `incoming` and `outgoing` are the values across its cuts; none where each
// block reads what the one before it makes, and nothing else passes.
std::vector<HeldValues> held_values(const OperatorLists& operators, std::span<const std::size_t> blocks,
                                    std::span<const std::size_t> incoming, std::span<const std::size_t> outgoing);

}  // namespace llmtrain
