// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Scalar functions without branches or calls, so that the compiler vectorises the loops around them. Everything is in
// an unnamed namespace: each source is compiled once per instruction-set level and keeps its own copy (level.h).
namespace llmtrain::kernels::vector {
namespace {

// Fused (one rounding) where the processor has the instruction. Explicit rather than left to the compiler, so that two
// loops over the same expression give the same bits.
inline float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// Lower and upper bound of x in one instruction each; NaN stays NaN.
inline float at_least(float x, float bound) { return x < bound ? bound : x; }
inline float at_most(float x, float bound) { return x > bound ? bound : x; }

// e^x = significand · 2ⁿ by Cody and Waite's reduction to |r| ≤ ln 2 / 2 and Cephes' polynomial.
struct Power {
  float significand;
  std::int32_t shifted_exponent;  // n + 0x4B400000, the bits of 1.5·2²³ + n: the low nine bits are those of n
};

inline Power split_exponential(float x) {
  // Adding 1.5·2²³ rounds to the nearest integer and leaves it in the low bits.
  constexpr float rounding = 12582912.0F;
  const float shifted = multiply_add(x, 1.44269504088896341F, rounding);
  const float n = shifted - rounding;
  // ln 2 = 0.693359375 − 2.12194440e−4: the first part has few bits, so its product with n is exact.
  const float r = multiply_add(n, 2.12194440e-4F, multiply_add(n, -0.693359375F, x));
  float p = 1.9875691500e-4F;
  p = multiply_add(p, r, 1.3981999507e-3F);
  p = multiply_add(p, r, 8.3334519073e-3F);
  p = multiply_add(p, r, 4.1665795894e-2F);
  p = multiply_add(p, r, 1.6666665459e-1F);
  p = multiply_add(p, r, 5.0000001201e-1F);
  p = multiply_add(p, r * r, r) + 1.0F;
  return {p, __builtin_bit_cast(std::int32_t, shifted)};
}

// e^x to 2 ulp. Overflows to infinity, underflows through the subnormal numbers to 0, keeps NaN.
inline float exponential(float x) {
  // Outside of these bounds the result is infinity or 0 anyway; within, the exponent fits the arithmetic below.
  const Power power = split_exponential(at_least(at_most(x, 89.0F), -104.0F));
  // Two factors: the exponent reaches −150 and 128, beyond those of one float.
  const std::int32_t exponent = power.shifted_exponent - 0x4B400000;
  const std::int32_t half = exponent >> 1;
  const float low = __builtin_bit_cast(float, (half + 127) << 23);
  const float high = __builtin_bit_cast(float, (exponent - half + 127) << 23);
  return power.significand * low * high;
}

// The same for |x| ≤ 87, where 2ⁿ is a normal number: n is added to the exponent. The result for NaN is unspecified.
inline float bounded_exponential(float x) {
  const Power power = split_exponential(x);
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, power.significand);
  return __builtin_bit_cast(float, bits + (static_cast<std::uint32_t>(power.shifted_exponent) << 23));
}

// e^x for x ≤ 0, to 2 ulp; 0 where it is below the normal numbers; keeps NaN. Without overflow and subnormal results it
// takes two thirds of the time of exponential().
inline float decay(float x) {
  // e^−87 is just above the smallest normal number, 2⁻¹²⁶.
  constexpr float least = -87.0F;
  const Power power = split_exponential(at_least(x, least));
  const auto scale = (static_cast<std::uint32_t>(power.shifted_exponent) - (0x4B400000U - 127U)) << 23;
  return x < least ? 0.0F : power.significand * __builtin_bit_cast(float, scale);
}

// ln x to 2 ulp for positive normal x (Cephes' polynomial on [√½, √2]).
inline float logarithm(float x) {
  const std::int32_t bits = __builtin_bit_cast(std::int32_t, x);
  // 0x3F3504F3 is √½: the mantissa lands in [√½, √2], around 1, where the polynomial is centred.
  const std::int32_t exponent = (bits - 0x3F3504F3) >> 23;
  const float m = __builtin_bit_cast(float, bits - exponent * (1 << 23)) - 1.0F;
  const float n = static_cast<float>(exponent);
  float p = 7.0376836292e-2F;
  p = multiply_add(p, m, -1.1514610310e-1F);
  p = multiply_add(p, m, 1.1676998740e-1F);
  p = multiply_add(p, m, -1.2420140846e-1F);
  p = multiply_add(p, m, 1.4249322787e-1F);
  p = multiply_add(p, m, -1.6668057665e-1F);
  p = multiply_add(p, m, 2.0000714765e-1F);
  p = multiply_add(p, m, -2.4999993993e-1F);
  p = multiply_add(p, m, 3.3333331174e-1F);
  const float square = m * m;
  const float tail = multiply_add(n, -2.12194440e-4F, multiply_add(square, -0.5F, p * m * square));
  return multiply_add(n, 0.693359375F, m + tail);
}

// σ(x) = 1/(1 + e^−x) and 1 − σ(x), both to a few ulp for |x| ≤ 87: the difference would lose the second for large x.
// Beyond that both keep their values at ±87, less than 2e−38 from the exact ones. Unspecified for NaN.
struct Logistic {
  float value;
  float complement;
};

inline Logistic logistic(float x) {
  const float power = bounded_exponential(-at_least(at_most(x, 87.0F), -87.0F));
  const float value = 1.0F / (1.0F + power);
  return {value, power * value};
}

// bfloat16 is the upper half of a float.
inline float to_float(std::uint16_t bits) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16); }
inline float to_float(float x) { return x; }

// Rounds to nearest, ties to even; NaN stays NaN.
inline std::uint16_t to_bf16(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  // Half of the last kept bit, less one where that bit is even: ties go to even.
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>(x == x ? rounded : 0x7FC0U);
}

// Stores a float in either of the two types that the loops are written for.
inline void store(float& place, float x) { place = x; }
inline void store(std::uint16_t& place, float x) { place = to_bf16(x); }

}  // namespace
}  // namespace llmtrain::kernels::vector
