// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace llmtrain::kernels {

// Philox 4×32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC11): a pure function from (key,
// counter) to 128 random bits. Every random number of the program comes from it, so none of them depends on the layout.

// For kernels of GPUs as well.
#ifdef __CUDACC__
#define LLMTRAIN_ON_DEVICES __host__ __device__
#else
#define LLMTRAIN_ON_DEVICES
#endif

// Replaces the counter by its random bits; constants and rounds as in the paper's reference code. Always inlined and on
// a plain array, so that the loops in kernels/vector, which must leave no shared copy of a function to the linker, can
// use it.
[[gnu::always_inline]] LLMTRAIN_ON_DEVICES constexpr void philox_in_place(std::uint64_t key, std::uint32_t (&c)[4]) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ULL * c[0];
    const std::uint64_t p1 = 0xCD9E8D57ULL * c[2];
    c[0] = static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0;
    c[1] = static_cast<std::uint32_t>(p1);
    c[2] = static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1;
    c[3] = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                              std::uint64_t counter_high) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
                        static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  philox_in_place(key, c);
  return {c[0], c[1], c[2], c[3]};
}

}  // namespace llmtrain::kernels
