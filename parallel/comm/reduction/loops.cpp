// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/reduction/loops.h"

#include <cstdint>

namespace llmtrain::reduction_loops {
namespace {

// This file is compiled once per instruction-set level, so it must not include inline code from other headers: the
// linker could keep a copy of it that this processor cannot run.

float as_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
std::uint32_t as_bits(float value) { return __builtin_bit_cast(std::uint32_t, value); }

// A binary floating-point format narrower than fp32, with the layout of IEEE 754.
template <class Storage, int exponent_bits, int mantissa_bits, bool has_infinity>
struct SmallFloat {
  using Element = Storage;
  using Accumulator = float;

  static constexpr int shift = 23 - mantissa_bits;
  static constexpr std::uint32_t bias_change = 127 - ((1 << (exponent_bits - 1)) - 1);
  static constexpr std::uint32_t sign_mask = 1u << (exponent_bits + mantissa_bits);
  static constexpr std::uint32_t exponent_mask = ((1u << exponent_bits) - 1) << mantissa_bits;

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
    // Beyond the largest finite number the rounding above yields the pattern of `overflow` or a larger one.
    const std::uint32_t bounded = finite > overflow || magnitude >= limit ? overflow : finite;
    const std::uint32_t quiet_nan = has_infinity ? exponent_mask | (1u << (mantissa_bits - 1)) : sign_mask - 1;
    return static_cast<Storage>(sign | (magnitude > 0x7f800000u ? quiet_nan : bounded));
  }

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

template <class Number>
struct Plain {
  using Element = Number;
  using Accumulator = Number;

  static Number widen(Number stored) { return stored; }
  static Number narrow(Number value) { return value; }
};

// Sums of integers wrap around: in unsigned arithmetic, because signed overflow is undefined. Comparisons stay signed.
template <class Number, class Unsigned>
Number wrapped_sum(Number left, Number right) {
  return static_cast<Number>(static_cast<Unsigned>(left) + static_cast<Unsigned>(right));
}
float sum(float left, float right) { return left + right; }
std::int32_t sum(std::int32_t left, std::int32_t right) {
  return wrapped_sum<std::int32_t, std::uint32_t>(left, right);
}
std::int64_t sum(std::int64_t left, std::int64_t right) {
  return wrapped_sum<std::int64_t, std::uint64_t>(left, right);
}
std::uint8_t sum(std::uint8_t left, std::uint8_t right) { return static_cast<std::uint8_t>(left + right); }

// A NaN wins: on the right by the comparison with itself, on the left because no comparison with it is
// true.
template <class Number>
Number larger(Number left, Number right) {
  return right > left || right != right ? right : left;
}
template <class Number>
Number smaller(Number left, Number right) {
  return right < left || right != right ? right : left;
}

template <class Format, auto combine>
void combine_block(void* accumulator, const void* source, std::size_t count) {
  auto* __restrict sums = static_cast<typename Format::Accumulator*>(accumulator);
  const auto* __restrict values = static_cast<const typename Format::Element*>(source);
  for (std::size_t i = 0; i < count; ++i) sums[i] = combine(sums[i], Format::widen(values[i]));
}

template <class Format>
void load_block(void* accumulator, const void* source, std::size_t count) {
  auto* __restrict sums = static_cast<typename Format::Accumulator*>(accumulator);
  const auto* __restrict values = static_cast<const typename Format::Element*>(source);
  for (std::size_t i = 0; i < count; ++i) sums[i] = Format::widen(values[i]);
}

template <class Format>
void store_block(void* destination, const void* accumulator, std::size_t count) {
  auto* __restrict values = static_cast<typename Format::Element*>(destination);
  const auto* __restrict sums = static_cast<const typename Format::Accumulator*>(accumulator);
  for (std::size_t i = 0; i < count; ++i) values[i] = Format::narrow(sums[i]);
}

template <class Format>
constexpr Loops loops_of() {
  using Number = typename Format::Accumulator;
  return {load_block<Format>,
          {combine_block<Format, static_cast<Number (*)(Number, Number)>(sum)>, combine_block<Format, larger<Number>>,
           combine_block<Format, smaller<Number>>},
          store_block<Format>};
}

}  // namespace

template <>
const LoopTable& loop_table<LLMTRAIN_VECTOR_LEVEL>() {
  static constexpr LoopTable table{loops_of<Plain<float>>(),
                                   loops_of<BrainFloat>(),
                                   loops_of<SmallFloat<std::uint16_t, 5, 10, true>>(),
                                   loops_of<SmallFloat<std::uint8_t, 4, 3, false>>(),
                                   loops_of<SmallFloat<std::uint8_t, 5, 2, true>>(),
                                   loops_of<Plain<std::int32_t>>(),
                                   loops_of<Plain<std::int64_t>>(),
                                   loops_of<Plain<std::uint8_t>>()};
  return table;
}

}  // namespace llmtrain::reduction_loops
