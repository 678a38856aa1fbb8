// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/random/philox.h"

// In an unnamed namespace: each source is compiled once per instruction-set level and keeps its own copy (level.h).
namespace llmtrain::kernels::vector {
namespace {

// The words of philox(key, first_counter + i) for i < counters, in order: [4 · counters]. A loop that vectorises.
inline void fill_words(std::uint64_t key, std::uint64_t first_counter, int counters, std::uint32_t* __restrict words) {
  for (int i = 0; i < counters; ++i) {
    const std::uint64_t counter = first_counter + static_cast<std::uint64_t>(i);
    std::uint32_t c[4] = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0};
    philox_in_place(key, c);
    for (int k = 0; k < 4; ++k) words[4 * i + k] = c[k];
  }
}

}  // namespace
}  // namespace llmtrain::kernels::vector
