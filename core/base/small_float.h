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
  static constexpr std::uint32_t quiet_nan = has_infinity ? exponent_mask | (1u << (mantissa_bits - 1)) : sign_mask - 1;
  // The pattern after the largest finite number: formats without infinities use the highest exponent too, except for
  // its NaN.
  static constexpr std::uint32_t overflow = has_infinity ? exponent_mask : sign_mask - 1;
  // The largest finite number and the lowest normal one, as fp32's bits.
  static constexpr std::uint32_t largest = ((overflow - 1) << shift) + (bias_change << 23);
  static constexpr std::uint32_t lowest = (bias_change + 1) << 23;
  static constexpr std::uint32_t lowest_magic = lowest + (shift << 23);

 public:
  static float widen(Storage stored) {
    const std::uint32_t magnitude = stored & (sign_mask - 1);
    const std::uint32_t sign = (stored & sign_mask) << (31 - exponent_bits - mantissa_bits);
    const std::uint32_t normal = (magnitude << shift) + (bias_change << 23);
    // Placing a subnormal's mantissa at the lowest normal exponent and subtracting the implicit one normalises it
    // exactly.
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
    const std::uint32_t subnormal = as_bits(as_float(magnitude) + as_float(lowest_magic)) - lowest_magic;
    const std::uint32_t finite = magnitude < lowest ? subnormal : rounded;
    // Beyond the largest finite number the rounding above yields the pattern of `overflow` or a larger one.
    const std::uint32_t bounded = finite > overflow || magnitude >= limit ? overflow : finite;
    return static_cast<Storage>(sign | (magnitude > 0x7f800000u ? quiet_nan : bounded));
  }

  // The same with the largest finite magnitude in place of one beyond it. Few operations and all of them on 32 bits,
  // since casts of whole tensors to FP8 are bound by them.
  static Storage narrow_saturating(float value) {
    const std::uint32_t bits = as_bits(value);
    const std::uint32_t bounded = bounded_magnitude(bits), magic = rounding_magic(bounded);
    const std::uint32_t multiples = as_bits(as_float(bounded) + as_float(magic)) - magic;
    const std::uint32_t finite = multiples + ((magic - lowest_magic) >> shift);
    const std::uint32_t sign = (bits >> (31 - exponent_bits - mantissa_bits)) & sign_mask;
    return static_cast<Storage>(sign | ((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : finite));
  }

  // widen(narrow_saturating(value)).
  static float round_saturating(float value) {
    const std::uint32_t bits = as_bits(value);
    const std::uint32_t bounded = bounded_magnitude(bits), magic = rounding_magic(bounded);
    const std::uint32_t finite = as_bits(as_float(bounded) + as_float(magic) - as_float(magic));
    return as_float((bits & 0x80000000u) | ((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : finite));
  }

 private:
  // The first power of two, in fp32's bits, that is out of range.
  static constexpr std::uint32_t limit = (bias_change + (1u << exponent_bits) - (has_infinity ? 1 : 0)) << 23;

  // At most the largest finite magnitude, in fp32's bits.
  static std::uint32_t bounded_magnitude(std::uint32_t bits) {
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    return magnitude < largest ? magnitude : largest;
  }

  // The power of two whose last bit in fp32 is worth the last bit that is stored of a magnitude. Adding it makes the
  // processor round to multiples of that, ties to even, and leaves their number in the low bits.
  static std::uint32_t rounding_magic(std::uint32_t bounded) {
    const std::uint32_t magic = (bounded & 0x7f800000u) + (shift << 23);
    return magic < lowest_magic ? lowest_magic : magic;
  }
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
