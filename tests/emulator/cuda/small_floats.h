// SPDX-License-Identifier: Apache-2.0
// FP8's two formats, for sums: https://arxiv.org/abs/2209.05433.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace emulated {

struct Fp8Format {
  int mantissa_bits;
  int bias;
  bool has_infinity;
};
constexpr Fp8Format e4m3{3, 7, false}, e5m2{2, 15, true};

inline float widened_fp8(std::uint8_t bits, Fp8Format format) {
  const int exponent = (bits & 0x7f) >> format.mantissa_bits, mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const float sign = (bits & 0x80) != 0 ? -1.0F : 1.0F;
  const int last = (1 << (7 - format.mantissa_bits)) - 1;
  if (exponent == last && format.has_infinity)
    return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - format.bias - format.mantissa_bits);
  return sign * std::ldexp(static_cast<float>(mantissa + (1 << format.mantissa_bits)),
                           exponent - format.bias - format.mantissa_bits);
}

// The sizes of all numbers by their bits without a sign, with infinity where the next number would stand.
inline const std::vector<float>& sizes_of(Fp8Format format) {
  const auto make = [](Fp8Format of) {
    std::vector<float> sizes;
    for (int bits = 0; bits <= (of.has_infinity ? 0x7b : 0x7e); ++bits)
      sizes.push_back(widened_fp8(static_cast<std::uint8_t>(bits), of));
    if (of.has_infinity) sizes.push_back(65536.0F);
    return sizes;
  };
  static const std::vector<float> of_e4m3 = make(e4m3), of_e5m2 = make(e5m2);
  return format.has_infinity ? of_e5m2 : of_e4m3;
}

// The nearest, of two as near the even one; E4M3 saturates.
inline std::uint8_t narrowed_fp8(float value, Fp8Format format) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7f;
  const std::vector<float>& sizes = sizes_of(format);
  const float size = std::fabs(value);
  const auto above = std::upper_bound(sizes.begin(), sizes.end(), size);
  if (above == sizes.end()) return sign | static_cast<std::uint8_t>(sizes.size() - 1);
  const auto bits = static_cast<std::uint8_t>(above - sizes.begin());  // of the next larger
  const float below = size - sizes[bits - 1U], left = *above - size;
  const bool goes_up = left < below || (left == below && bits % 2 == 0);
  return sign | static_cast<std::uint8_t>(goes_up ? bits : bits - 1);
}

}  // namespace emulated
