// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/small_float.h"
#include "kernels/vector/products/attention.h"
#include "kernels/vector/products/lanes.h"

// Products in fp32 with rows whose elements are bytes: std::int8_t, or Fp8Element. In an unnamed namespace like math.h.
namespace llmtrain::kernels::vector {
namespace {

inline float to_float(std::int8_t x) { return x; }
inline float to_float(Fp8Element x) { return Float8E4M3::widen(x.bits); }

// The largest numbers that bytes stand for.
inline constexpr float largest_of(std::int8_t) { return 127; }
inline constexpr float largest_of(Fp8Element) { return 448; }

// Rounded to nearest, ties to even; at most the largest in magnitude, or little more.
inline void store_rounded(std::int8_t& place, float x) {
  constexpr float rounding = 12582912.0F;  // 1.5·2²³, which leaves an integer in the low bits
  place = static_cast<std::int8_t>(__builtin_bit_cast(std::int32_t, x + rounding) - 0x4B400000);
}
inline void store_rounded(Fp8Element& place, float x) { place.bits = Float8E4M3::narrow_saturating(x); }

// Sixteen words of 32 bits.
using Words = std::int32_t __attribute__((vector_size(64)));

// The numbers whose bytes are the uppermost of these words.
inline void widen_uppermost(Lanes& lanes, const Words& words, std::int8_t) {
  lanes = __builtin_convertvector(words >> 24, Lanes);
}
// The sign stays; exponent and mantissa become fp32's upper ones, whose exponents count from 127 in place of 7. With an
// exponent of 0 both types have multiples of their smallest number, so that the factor makes these exact, too.
inline void widen_uppermost(Lanes& lanes, const Words& words, Fp8Element) {
  const Words moved = (words >> 4) & static_cast<std::int32_t>(0x87F00000U);
  __builtin_memcpy(&lanes, &moved, sizeof lanes);
  lanes *= 0x1p120F;
}

// The order in which 64 elements of a row become four vectors: lane i of vector j is element 4·i + j. Each is shifted
// out of the four bytes in which it is, and none moves to another lane, which would take longer than the product.
constexpr std::int64_t quarters = 4, arranged_count = quarters * lane_count;

using Quarters = Lanes[quarters];

template <class Byte>
void load_arranged(Quarters& lanes, const Byte* x) {
  Words words;
  __builtin_memcpy(&words, x, sizeof words);
  for (int j = 0; j < quarters; ++j) widen_uppermost(lanes[j], words << (24 - 8 * j), Byte{});
}

// In steps of two: compilers take one from eight bits to thirty-two apart.
template <class Byte>
void load_bytes(Lanes& lanes, const Byte* x) {
  using Bytes = std::int8_t __attribute__((vector_size(16)));
  using Shorts = std::int16_t __attribute__((vector_size(32)));
  Bytes bytes;
  __builtin_memcpy(&bytes, x, sizeof bytes);
  widen_uppermost(lanes, __builtin_convertvector(__builtin_convertvector(bytes, Shorts), Words) << 24, Byte{});
}
inline void load(Lanes& lanes, const std::int8_t* x) { load_bytes(lanes, x); }
inline void load(Lanes& lanes, const Fp8Element* x) { load_bytes(lanes, x); }

// The first elements of `width`, as many as 64 divides, in the order of load_arranged(), and the others in their own.
inline void arrange(const float* x, std::int64_t width, float* arranged) {
  std::int64_t e = 0;
  for (; e + arranged_count <= width; e += arranged_count)
    for (std::int64_t i = 0; i < arranged_count; ++i) arranged[e + i % quarters * lane_count + i / quarters] = x[e + i];
  for (; e < width; ++e) arranged[e] = x[e];
}

inline void restore_order(const float* arranged, std::int64_t width, float* x) {
  std::int64_t e = 0;
  for (; e + arranged_count <= width; e += arranged_count)
    for (std::int64_t i = 0; i < arranged_count; ++i) x[e + i] = arranged[e + i % quarters * lane_count + i / quarters];
  for (; e < width; ++e) x[e] = arranged[e];
}

// out[0 … 3] = x · four rows, `stride` elements apart; x is arranged.
template <class Byte>
void four_products(const float* x, const Byte* rows, std::int64_t stride, std::int64_t width, float* out) {
  const Byte *row_a = rows, *row_b = rows + stride, *row_c = row_b + stride, *row_d = row_c + stride;
  Lanes a = {}, b = {}, c = {}, d = {}, lanes;
  std::int64_t e = 0;
  for (; e + arranged_count <= width; e += arranged_count) {
    Quarters in_a, in_b, in_c, in_d;
    load_arranged(in_a, row_a + e);
    load_arranged(in_b, row_b + e);
    load_arranged(in_c, row_c + e);
    load_arranged(in_d, row_d + e);
    for (int j = 0; j < quarters; ++j) {
      load(lanes, x + e + j * lane_count);
      a += lanes * in_a[j];
      b += lanes * in_b[j];
      c += lanes * in_c[j];
      d += lanes * in_d[j];
    }
  }
  for (; e + lane_count <= width; e += lane_count) {
    Lanes in_a, in_b, in_c, in_d;
    load(lanes, x + e);
    load(in_a, row_a + e);
    load(in_b, row_b + e);
    load(in_c, row_c + e);
    load(in_d, row_d + e);
    a += lanes * in_a;
    b += lanes * in_b;
    c += lanes * in_c;
    d += lanes * in_d;
  }
  FourLanes sums = sums_of(a, b, c, d);
  for (; e < width; ++e)
    sums += x[e] * FourLanes{to_float(row_a[e]), to_float(row_b[e]), to_float(row_c[e]), to_float(row_d[e])};
  __builtin_memcpy(out, &sums, sizeof sums);
}

// out[i] = x · row i for `count` consecutive rows; x is arranged.
template <class Byte>
void byte_row_products(const float* x, const Byte* rows, std::int64_t count, std::int64_t width, float* out) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) four_products(x, rows + i * width, width, width, out + i);
  float same[4];
  for (; i < count; ++i) {
    four_products(x, rows + i * width, 0, width, same);
    out[i] = same[0];
  }
}

}  // namespace
}  // namespace llmtrain::kernels::vector
