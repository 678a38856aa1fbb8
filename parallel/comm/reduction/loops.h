// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace llmtrain::reduction_loops {

// The loops over one block of at most block_elements, compiled once per instruction-set level (x86-64-v2, v3 and v4; on
// other architectures one level, 0). `accumulator` holds float for floating types, else the type itself; arrays must be
// aligned to their elements. Sources and destinations have the element type of the table's entry.
inline constexpr std::size_t block_elements = 2048;

struct Loops {
  using Combine = void (*)(void* accumulator, const void* source, std::size_t count);
  Combine load;
  Combine combine[3];  // indexed by Reduction
  void (*store)(void* destination, const void* accumulator, std::size_t count);
};

// Indexed by ElementType.
using LoopTable = Loops[8];

template <int level>
const LoopTable& loop_table();

}  // namespace llmtrain::reduction_loops
