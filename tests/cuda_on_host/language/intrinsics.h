// SPDX-License-Identifier: Apache-2.0
// CUDA's functions for numbers and bits, which lie in the global namespace. Approximate ones are exact here.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

using std::max;
using std::min;

inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1 / x; }
// Products and sums that a compiler never fuses into one operation of one rounding: it does not see what was in memory.
inline float __fmul_rn(float a, float b) {
  volatile float product = a * b;
  return product;
}
inline double __dmul_rn(double a, double b) {
  volatile double product = a * b;
  return product;
}
inline double __dadd_rn(double a, double b) {
  volatile double sum = a + b;
  return sum;
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }

// Each nibble of the selector names one of the eight bytes of a (0 to 3) and b.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(std::uint64_t{a} * b >> 32); }

// Loads and stores with a hint for the cache.
template <class T>
T __ldg(const T* place) {
  return *place;
}
template <class T>
T __ldcs(const T* place) {
  return *place;
}
template <class T>
void __stcs(T* place, T value) {
  *place = value;
}
