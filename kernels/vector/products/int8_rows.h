// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/vector/products/lanes.h"

// Products with rows of int8 in fp32. In an unnamed namespace like math.h.
namespace llmtrain::kernels::vector {
namespace {

inline float to_float(std::int8_t x) { return x; }

// The order in which 64 elements of a row become four vectors: lane i of vector j is element 4·i + j. Each is shifted
// out of the four bytes in which it is, and none moves to another lane, which would take longer than the product.
constexpr std::int64_t quarters = 4, arranged_count = quarters * lane_count;

using Quarters = Lanes[quarters];

inline void load_arranged(Quarters& lanes, const std::int8_t* x) {
  using Words = std::int32_t __attribute__((vector_size(64)));
  Words words;
  __builtin_memcpy(&words, x, sizeof words);
  for (int j = 0; j < quarters; ++j) lanes[j] = __builtin_convertvector((words << (24 - 8 * j)) >> 24, Lanes);
}

// In steps of two: compilers take one from eight bits to thirty-two apart.
inline void load(Lanes& lanes, const std::int8_t* x) {
  using Bytes = std::int8_t __attribute__((vector_size(16)));
  using Shorts = std::int16_t __attribute__((vector_size(32)));
  using Words = std::int32_t __attribute__((vector_size(64)));
  Bytes bytes;
  __builtin_memcpy(&bytes, x, sizeof bytes);
  lanes = __builtin_convertvector(__builtin_convertvector(__builtin_convertvector(bytes, Shorts), Words), Lanes);
}

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
inline void four_products(const float* x, const std::int8_t* rows, std::int64_t stride, std::int64_t width,
                          float* out) {
  const std::int8_t *row_a = rows, *row_b = rows + stride, *row_c = row_b + stride, *row_d = row_c + stride;
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
    sums += x[e] * FourLanes{static_cast<float>(row_a[e]), static_cast<float>(row_b[e]), static_cast<float>(row_c[e]),
                             static_cast<float>(row_d[e])};
  __builtin_memcpy(out, &sums, sizeof sums);
}

// out[i] = x · row i for `count` consecutive rows; x is arranged.
inline void row_products(const float* x, const std::int8_t* rows, std::int64_t count, std::int64_t width, float* out) {
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
