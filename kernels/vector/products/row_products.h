// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/vector/math.h"
#include "kernels/vector/products/lanes.h"

// Shared by loops that multiply one vector with the rows of a matrix. In an unnamed namespace like math.h.
namespace llmtrain::kernels::vector {
namespace {

// out[0 … 3] = x · four rows, `stride` elements apart. Their sums do not wait for each other.
template <class Value>
void four_products(const Value* x, const Value* rows, std::int64_t stride, std::int64_t width, float* out) {
  const Value *row_a = rows, *row_b = rows + stride, *row_c = row_b + stride, *row_d = row_c + stride;
  Lanes a{}, b{}, c{}, d{};
  std::int64_t e = 0;
  for (; e + lane_count <= width; e += lane_count) {
    Lanes lanes, row;
    load(lanes, x + e);
    load(row, row_a + e);
    a += lanes * row;
    load(row, row_b + e);
    b += lanes * row;
    load(row, row_c + e);
    c += lanes * row;
    load(row, row_d + e);
    d += lanes * row;
  }
  FourLanes sums = sums_of(a, b, c, d);
  for (; e < width; ++e)
    sums += to_float(x[e]) * FourLanes{to_float(row_a[e]), to_float(row_b[e]), to_float(row_c[e]), to_float(row_d[e])};
  __builtin_memcpy(out, &sums, sizeof sums);
}

// out[i] = x · row i for `count` consecutive rows, in fp32.
template <class Value>
void row_products(const Value* x, const Value* rows, std::int64_t count, std::int64_t width, float* out) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) four_products(x, rows + i * width, width, width, out + i);
  for (; i < count; ++i) {
    // Four times the same row: the last few rows take no code of their own.
    float same[4];
    four_products(x, rows + i * width, 0, width, same);
    out[i] = same[0];
  }
}

}  // namespace
}  // namespace llmtrain::kernels::vector
