// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Sixteen floats that loops name themselves, where the compiler's own vectors are slow: it adds up several sums that
// are reduced at once element by element. In an unnamed namespace like math.h; one width for all instruction-set
// levels, of which the narrower take several registers.
namespace llmtrain::kernels::vector {
namespace {

constexpr std::int64_t lane_count = 16;

using Lanes = float __attribute__((vector_size(64)));

// By reference: how such a vector is returned depends on the instruction-set level, of which compilers warn.
inline void load(Lanes& lanes, const float* x) { __builtin_memcpy(&lanes, x, sizeof lanes); }

inline void load(Lanes& lanes, const std::uint16_t* x) {
  using Halves = std::uint16_t __attribute__((vector_size(32)));
  using Bits = std::uint32_t __attribute__((vector_size(64)));
  Halves halves;
  __builtin_memcpy(&halves, x, sizeof halves);
  // bfloat16 is the upper half of a float.
  const Bits bits = __builtin_convertvector(halves, Bits) << 16;
  __builtin_memcpy(&lanes, &bits, sizeof lanes);
}

using FourLanes = float __attribute__((vector_size(16)));

// Each of the four sums over every fourth lane.
inline FourLanes folded(const Lanes& x) {
  using EightLanes = float __attribute__((vector_size(32)));
  const EightLanes eight = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                           __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  return __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
}

// The sums of the lanes of a, b, c and d.
inline FourLanes sums_of(const Lanes& a, const Lanes& b, const Lanes& c, const Lanes& d) {
  const FourLanes w = folded(a), x = folded(b), y = folded(c), z = folded(d);
  // Two sums of each of two vectors, then of all four: a transposition that adds on the way.
  const FourLanes wx = __builtin_shufflevector(w, x, 0, 4, 1, 5) + __builtin_shufflevector(w, x, 2, 6, 3, 7);
  const FourLanes yz = __builtin_shufflevector(y, z, 0, 4, 1, 5) + __builtin_shufflevector(y, z, 2, 6, 3, 7);
  return __builtin_shufflevector(wx, yz, 0, 1, 4, 5) + __builtin_shufflevector(wx, yz, 2, 3, 6, 7);
}

}  // namespace
}  // namespace llmtrain::kernels::vector
