// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/arena/buffer.h"

namespace llmtrain {

// Where each buffer lies, in bytes from the block's begin, and the bytes that the block must have.
struct Packing {
  std::vector<std::int64_t> offsets;
  std::int64_t height = 0;
};

struct PackingLimits {
  std::int64_t alignment = 512;  // of offsets, and what sizes are rounded up to
  // How many pairs of buffers that are alive together may be looked at for better packings once there is one. Work is
  // counted and not timed, so that a packing is the same on every machine.
  std::int64_t pairs = std::int64_t{1} << 25;
};

// Offsets at which no two buffers that are alive together share a byte, in a block as low as was found: to find the
// lowest is NP-hard (Garey and Johnson, 1979, problem SR2). Buffers are placed one after another into the lowest
// gap that holds them between those that are already there and alive together with them, in several orders: by first
// use, by size (the greedy method of Pisarchyk and Lee, arXiv 2001.03288, section 5.2), by size times length of life,
// by length of life (Sekiyama et al., arXiv 1804.10001, section 3.2), and by how much is alive beside them. From the
// best order on, those that reach the top are placed earlier, again and again, as long as `pairs` allows ("squeaky
// wheel" optimization, Joslin and Clements, JAIR 10, 1999).
//
// All offsets are known before the first use, so that nothing waits for memory while it runs: what lies at fixed places
// cannot deadlock, as programs can that wait for each other's memory to be freed. Buffers of 0 bytes are at offset 0.
// Takes time in proportion to the pairs that are alive together, and at most about a second for `pairs`. Throws
// std::invalid_argument for negative bytes, and for a last use before the first.
Packing pack(std::span<const Buffer> buffers, const PackingLimits& limits = {});

// The largest sum of sizes, each rounded up to the alignment, that are alive at a moment: no packing is lower.
std::int64_t least_height(std::span<const Buffer> buffers, std::int64_t alignment = 512);

}  // namespace llmtrain
