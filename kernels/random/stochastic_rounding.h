// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/random/philox.h"

namespace llmtrain::kernels {

// Rounding up or down at random, with the probability that makes the mean of what is rounded its value (Gupta et al.,
// "Deep Learning with Limited Numerical Precision", arXiv 1502.02551, section 3). On all devices the same bits.

// Random bits that depend on a key and on the index of an element in its unsharded tensor, and nothing else: two words
// per element, those of philox(key, index / 2) from 2 · (index mod 2) on.
struct StochasticRounding {
  std::uint64_t key = 0;   // rounding_key(): of which tensor and step
  std::int64_t first = 0;  // index of the first element in the unsharded tensor of what this rank has of it
  // Where that is a part of each row: runs of `run` elements whose starts are `stride` apart in the unsharded tensor.
  // 0: all of it is one run.
  std::int64_t run = 0;
  std::int64_t stride = 0;
  std::int64_t skipped = 0;  // elements of what this rank has in front of the first that is rounded
};

// An element's index, and how many elements from it on follow each other.
struct RunPart {
  std::int64_t index = 0, left = 0;
};

// Those of element i of what is rounded, of which there are `count` from i on.
LLMTRAIN_ON_DEVICES [[gnu::always_inline]] inline RunPart run_part(const StochasticRounding& rounding, std::int64_t i,
                                                                   std::int64_t count) {
  const std::int64_t place = rounding.skipped + i;
  if (rounding.run == 0) return {rounding.first + place, count};
  const std::int64_t column = place % rounding.run, left = rounding.run - column;
  return {rounding.first + place / rounding.run * rounding.stride + column, left < count ? left : count};
}

// For a tensor by its own number, such as a hash of its name, and the updates of a run so far.
constexpr std::uint64_t rounding_key(std::uint64_t tensor, std::int64_t step) {
  const auto words = philox(tensor, static_cast<std::uint64_t>(step), 0);
  return words[0] | std::uint64_t{words[1]} << 32;
}

// fp32's number of these bits, and back.
LLMTRAIN_ON_DEVICES [[gnu::always_inline]] inline float float_of_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}
LLMTRAIN_ON_DEVICES [[gnu::always_inline]] inline std::uint32_t bits_of_float(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(std::uint32_t, value);
#endif
}

// A format by the bits of its mantissa, and by the exponent of its least normal number, as fp32 stores it.
template <int mantissa_bits, int least_exponent>
struct SmallFormat {
  static constexpr std::uint32_t mantissa = mantissa_bits, least = least_exponent;
};
using Fp16Format = SmallFormat<10, 127 - 14>;
using E4m3Format = SmallFormat<3, 127 - 6>;

// `value` as a number of the format, as far as its range goes: the multiple of its last place below or, where what is
// between is above `threshold` in [0, 1), above, by magnitude. Infinity and NaN stay. Exact with thresholds that are
// multiples of 2^−k if fp32 has k bits of mantissa more: 13 in fp16, 20 in E4M3; numbers below the format's least
// normal one err upwards by at most 2^−k of its last place.
template <class Format>
LLMTRAIN_ON_DEVICES [[gnu::always_inline]] inline float rounded_at_random(float value, float threshold) {
  constexpr float whole = 8388608;  // 2^23, from where on fp32 has whole numbers alone
  const std::uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffffU, exponent = magnitude >> 23;
  const std::uint32_t unit = ((exponent < Format::least ? Format::least : exponent) - Format::mantissa) << 23;
  const float places = float_of_bits(magnitude) * float_of_bits((254U << 23) - unit);
  const float nearest = (places + whole) - whole, below = nearest > places ? nearest - 1 : nearest;
  const float result = (places - below > threshold ? below + 1 : below) * float_of_bits(unit);
  return float_of_bits(bits_of_float(result) | (bits & 0x80000000U));
}

// The same of a second moment in fp16, which above 0 becomes no less than the least number: a first moment over one
// that has been rounded away would be divided by eps alone.
LLMTRAIN_ON_DEVICES [[gnu::always_inline]] inline float second_moment_at_random(float value, float threshold) {
  const float rounded = rounded_at_random<Fp16Format>(value, threshold);
  return value > 0 && rounded == 0 ? 0x1p-24F : rounded;
}

// Thresholds from an element's two words: from halves of the first for two numbers in fp16, from the second for one in
// E4M3.
LLMTRAIN_ON_DEVICES [[gnu::always_inline]] inline float low_threshold(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word & 0xffffU)) * 0x1p-16F;
}
LLMTRAIN_ON_DEVICES [[gnu::always_inline]] inline float high_threshold(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 16)) * 0x1p-16F;
}
LLMTRAIN_ON_DEVICES [[gnu::always_inline]] inline float wide_threshold(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24F;
}

}  // namespace llmtrain::kernels
