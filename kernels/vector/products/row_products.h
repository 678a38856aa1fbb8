// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/vector/math.h"
#include "kernels/vector/products/lanes.h"

// Shared by loops that multiply vectors with the rows of a matrix. In an unnamed namespace like math.h.
namespace llmtrain::kernels::vector {
namespace {

// out[r][0 … 3] = row r of x · four rows, `stride` elements apart, for `count` rows of x, `x_stride` elements apart.
// The sums do not wait for each other, and each is formed in the same order whatever `count` is.
template <std::int64_t count, class Value>
void tile_products(const Value* x, std::int64_t x_stride, const Value* rows, std::int64_t stride, std::int64_t width,
                   float (*out)[4]) {
  const Value *row_a = rows, *row_b = rows + stride, *row_c = row_b + stride, *row_d = row_c + stride;
  Lanes a[count] = {}, b[count] = {}, c[count] = {}, d[count] = {};
  std::int64_t e = 0;
  for (; e + lane_count <= width; e += lane_count) {
    Lanes lanes, in_a, in_b, in_c, in_d;
    load(in_a, row_a + e);
    load(in_b, row_b + e);
    load(in_c, row_c + e);
    load(in_d, row_d + e);
    for (std::int64_t r = 0; r < count; ++r) {
      load(lanes, x + r * x_stride + e);
      a[r] += lanes * in_a;
      b[r] += lanes * in_b;
      c[r] += lanes * in_c;
      d[r] += lanes * in_d;
    }
  }
  for (std::int64_t r = 0; r < count; ++r) {
    FourLanes sums = sums_of(a[r], b[r], c[r], d[r]);
    for (std::int64_t rest = e; rest < width; ++rest)
      sums += to_float(x[r * x_stride + rest]) *
              FourLanes{to_float(row_a[rest]), to_float(row_b[rest]), to_float(row_c[rest]), to_float(row_d[rest])};
    __builtin_memcpy(out[r], &sums, sizeof sums);
  }
}

// out[i] = x · row i for `count` consecutive rows, in fp32.
template <class Value>
void row_products(const Value* x, const Value* rows, std::int64_t count, std::int64_t width, float* out) {
  std::int64_t i = 0;
  float four[1][4];
  for (; i + 4 <= count; i += 4) {
    tile_products<1>(x, 0, rows + i * width, width, width, four);
    __builtin_memcpy(out + i, four, sizeof four);
  }
  for (; i < count; ++i) {
    // Four times the same row: the last few rows take no code of their own.
    tile_products<1>(x, 0, rows + i * width, 0, width, four);
    out[i] = four[0][0];
  }
}

}  // namespace
}  // namespace llmtrain::kernels::vector
