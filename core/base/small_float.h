// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Conversions between fp32 and narrower floating-point formats, without branches or calls, so that the compiler
// vectorises the loops around them. Everything is in an unnamed namespace: the sources that include this are compiled
// once per instruction-set level and keep their own copies.
namespace llmtrain {
namespace {

inline float as_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline std::uint32_t as_bits(float value) { return __builtin_bit_cast(std::uint32_t, value); }

// A binary floating-point format narrower than fp32, with the layout of IEEE 754.
template <class Storage, int exponent_bits, int mantissa_bits, bool has_infinity>
struct SmallFloat {
  using Element = Storage;
  using Accumulator = float;

 private:
  static constexpr int shift = 23 - mantissa_bits;
  static constexpr std::uint32_t bias_change = 127 - ((1 << (exponent_bits - 1)) - 1);
  static constexpr std::uint32_t sign_mask = 1u << (exponent_bits + mantissa_bits);
  static constexpr std::uint32_t exponent_mask = ((1u << exponent_bits) - 1) << mantissa_bits;

 public:
  static float widen(Storage stored) {
    const std::uint32_t magnitude = stored & (sign_mask - 1);
    const std::uint32_t sign = (stored & sign_mask) << (31 - exponent_bits - mantissa_bits);
    const std::uint32_t normal = (magnitude << shift) + (bias_change << 23);
    // Placing a subnormal's mantissa at the lowest normal exponent and subtracting the implicit one normalises it
    // exactly.
    const std::uint32_t lowest = (bias_change + 1) << 23;
    const std::uint32_t subnormal = as_bits(as_float((magnitude << shift) + lowest) - as_float(lowest));
    // Formats without infinities (e4m3) have a single NaN, all ones; the others keep infinities and NaN payloads.
    const std::uint32_t special = has_infinity ? (magnitude << shift) | 0x7f800000u : 0x7fc00000u;
    const bool is_special = has_infinity ? (magnitude & exponent_mask) == exponent_mask : magnitude == sign_mask - 1;
    const std::uint32_t finite = (magnitude & exponent_mask) == 0 ? subnormal : normal;
    return as_float(sign | (is_special ? special : finite));
  }

  static Storage narrow(float value) {
    const std::uint32_t bits = as_bits(value);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t sign = (bits >> (31 - exponent_bits - mantissa_bits)) & sign_mask;
    const std::uint32_t odd = (magnitude >> shift) & 1;
    // Round to nearest, ties to even: just below half a unit, plus the lowest kept bit, carries correctly.
    const std::uint32_t rounded = (magnitude - (bias_change << 23) + ((1u << (shift - 1)) - 1) + odd) >> shift;
    // Adding a number whose last bit is worth the smallest subnormal makes the processor round to subnormals.
    const std::uint32_t magic = (bias_change + 1 + shift) << 23;
    const std::uint32_t subnormal = as_bits(as_float(magnitude) + as_float(magic)) - magic;
    const std::uint32_t finite = magnitude < (bias_change + 1) << 23 ? subnormal : rounded;
    const std::uint32_t overflow = has_infinity ? exponent_mask : sign_mask - 1;
    // Beyond the largest finite number the rounding above yields the pattern of `overflow` or a larger one. Formats
    // without infinities use the highest exponent too, except for its NaN.
    const std::uint32_t bounded = finite > overflow || magnitude >= limit ? overflow : finite;
    const std::uint32_t quiet_nan = has_infinity ? exponent_mask | (1u << (mantissa_bits - 1)) : sign_mask - 1;
    return static_cast<Storage>(sign | (magnitude > 0x7f800000u ? quiet_nan : bounded));
  }

  // The largest finite magnitude in place of one beyond it; NaN stays NaN.
  static Storage narrow_saturating(float value) {
    const Storage stored = narrow(value);
    const std::uint32_t magnitude = as_bits(value) & 0x7fffffffu;
    const std::uint32_t overflow = has_infinity ? exponent_mask : sign_mask - 1;
    // Corrected afterwards: GCC 12 does not vectorise a conversion of a value that has been bounded by the largest.
    const bool is_too_large = magnitude <= 0x7f800000u && (stored & (sign_mask - 1)) == overflow;
    return static_cast<Storage>(stored - (is_too_large ? 1 : 0));
  }

 private:
  // The first power of two, in fp32's bits, that is out of range.
  static constexpr std::uint32_t limit = (bias_change + (1u << exponent_bits) - (has_infinity ? 1 : 0)) << 23;
};

struct BrainFloat {
  using Element = std::uint16_t;
  using Accumulator = float;

  static float widen(Element stored) { return as_float(static_cast<std::uint32_t>(stored) << 16); }
  static Element narrow(float value) {
    const std::uint32_t bits = as_bits(value);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
    // A NaN keeps its upper payload and becomes quiet; rounding it could carry into infinity.
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return static_cast<Element>(is_nan ? (bits >> 16) | 0x40u : rounded);
  }
};

using Float16 = SmallFloat<std::uint16_t, 5, 10, true>;
// FP8 as in Micikevicius et al. (arXiv 2209.05433): E4M3 has no infinities, and one NaN of each sign.
using Float8E4M3 = SmallFloat<std::uint8_t, 4, 3, false>;
using Float8E5M2 = SmallFloat<std::uint8_t, 5, 2, true>;

}  // namespace
}  // namespace llmtrain
