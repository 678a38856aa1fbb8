// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/reduction/loops.h"

#include <cstdint>

#include "core/base/small_float.h"

namespace llmtrain::reduction_loops {
namespace {

// This file is compiled once per instruction-set level, so everything in it, and in what it includes, is in unnamed
// namespaces: of several copies the linker could keep one that this processor cannot run.

template <class Number>
struct Plain {
  using Element = Number;
  using Accumulator = Number;

  static Number widen(Number stored) { return stored; }
  static Number narrow(Number value) { return value; }
};

// E4M3 has no infinity that would tell a sum beyond its range from one that was not a number, so such a sum saturates:
// gradients that grow stay gradients, and what was not finite stays visible.
struct SaturatingFloat8E4M3 {
  using Element = Float8E4M3::Element;
  using Accumulator = float;

  static float widen(Element stored) { return Float8E4M3::widen(stored); }
  static Element narrow(float value) { return Float8E4M3::narrow_saturating(value); }
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
  static constexpr LoopTable table{
      loops_of<Plain<float>>(),         loops_of<BrainFloat>(),         loops_of<Float16>(),
      loops_of<SaturatingFloat8E4M3>(), loops_of<Float8E5M2>(),         loops_of<Plain<std::int32_t>>(),
      loops_of<Plain<std::int64_t>>(),  loops_of<Plain<std::uint8_t>>()};
  return table;
}

}  // namespace llmtrain::reduction_loops
