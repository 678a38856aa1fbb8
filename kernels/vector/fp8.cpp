// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/fp8.h"

#include "core/base/small_float.h"
#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

inline float to_float(Half x) { return Float16::widen(x.bits); }

// Stores what came from FP8 and a power of two: bf16 has all its digits, so that nothing is left to round.
inline void store_exact(float& place, float x) { place = x; }
inline void store_exact(std::uint16_t& place, float x) { place = static_cast<std::uint16_t>(as_bits(x) >> 16); }
// fp16 does not have its range.
inline void store_exact(Half& place, float x) { place.bits = Float16::narrow(x); }

// Integers instead of floats: their maximum needs no order of operations and no rule for NaN.
inline std::uint32_t magnitude_bits(float x) { return as_bits(x) & 0x7fffffffu; }
inline std::uint32_t larger(std::uint32_t a, std::uint32_t b) { return a < b ? b : a; }

// Bytes of the widest vectors.
constexpr int lanes = 64;

template <class Element>
std::uint32_t largest(const Element* x, std::int64_t n) {
  std::uint32_t bits = 0;
  for (std::int64_t i = 0; i < n; ++i) bits = larger(bits, magnitude_bits(to_float(x[i])));
  return bits;
}

template <class Format, class Element>
std::uint32_t cast(const Element* __restrict x, float scale, std::uint8_t* __restrict payload, std::int64_t n) {
  std::uint32_t bits = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = to_float(x[i]);
    bits = larger(bits, magnitude_bits(value));
    payload[i] = Format::narrow_saturating(value * scale);
  }
  return bits;
}

template <class Format, class Element>
void widen(const std::uint8_t* __restrict payload, float inverse_scale, Element* __restrict x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) store_exact(x[i], Format::widen(payload[i]) * inverse_scale);
}

template <class Format, class Element>
std::uint32_t round(const Element* x, float scale, float inverse_scale, Element* rounded, std::int64_t n) {
  std::uint32_t bits = 0;
  // x may be `rounded`, but no element is another's.
#pragma omp simd reduction(max : bits)
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = to_float(x[i]);
    bits = larger(bits, magnitude_bits(value));
    store_exact(rounded[i], Format::round_saturating(value * scale) * inverse_scale);
  }
  return bits;
}

template <class Format>
std::int64_t count_largest(const std::uint8_t* payload, std::int64_t n) {
  constexpr std::uint8_t sign = 0x80;
  // Infinity saturates to the format's largest code, and setting the sign bit makes one comparison of two.
  const auto largest = static_cast<std::uint8_t>(Format::narrow_saturating(__builtin_inff()) | sign);
  std::int64_t all = 0;
  // Bytes count as many as a vector holds at once, and as few as one of them can.
  for (std::int64_t begin = 0; begin < n; begin += 255 * lanes) {
    const std::int64_t end = n < begin + 255 * lanes ? n : begin + 255 * lanes;
    std::uint8_t counts[lanes] = {};
    std::int64_t i = begin;
    for (; i + lanes <= end; i += lanes)
      for (int lane = 0; lane < lanes; ++lane)
        counts[lane] = static_cast<std::uint8_t>(counts[lane] + ((payload[i + lane] | sign) == largest ? 1 : 0));
    for (; i < end; ++i) all += (payload[i] | sign) == largest ? 1 : 0;
    for (const std::uint8_t count : counts) all += count;
  }
  return all;
}

template <class Format, class Element>
constexpr Fp8Casts<Element> casts_of() {
  return {cast<Format, Element>, widen<Format, Element>, round<Format, Element>, count_largest<Format>};
}

template <class Element>
constexpr Fp8Kernels<Element> kernels_of() {
  return {largest<Element>, casts_of<Float8E4M3, Element>(), casts_of<Float8E5M2, Element>()};
}

}  // namespace

template <>
Fp8Kernels<float> fp8_kernels_for<LLMTRAIN_VECTOR_LEVEL, float>() {
  return kernels_of<float>();
}

template <>
Fp8Kernels<std::uint16_t> fp8_kernels_for<LLMTRAIN_VECTOR_LEVEL, std::uint16_t>() {
  return kernels_of<std::uint16_t>();
}

template <>
Fp8Kernels<Half> fp8_kernels_for<LLMTRAIN_VECTOR_LEVEL, Half>() {
  return kernels_of<Half>();
}

}  // namespace llmtrain::kernels::vector
