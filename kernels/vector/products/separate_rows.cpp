// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/products/separate_rows.h"

#include "kernels/vector/math.h"
#include "kernels/vector/products/lanes.h"

namespace llmtrain::kernels::vector {
namespace {

// Rows of the weight that a thread takes at a time.
constexpr std::int64_t chunk = 16;
// Rows that are multiplied with four of the weight at once: sixteen sums, for which the widest level has registers.
constexpr std::int64_t tile = LLMTRAIN_VECTOR_LEVEL == 4 ? 4 : 2;
// Rows whose sums a thread has at once.
constexpr std::int64_t panel = 16;
// Elements of a row that are multiplied with all rows of a panel before the next are: four rows of the weight of them
// stay in the first cache, and sums are put aside seldom.
constexpr std::int64_t block = 512;

// Elements that are multiplied below which starting a second thread costs more than it saves.
constexpr std::int64_t least_parallel_elements = 131072;

std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Four rows of the weight, of which the last few stand for themselves more than once at its end.
template <class Element>
struct FourRows {
  const Element* row[4];

  FourRows(const SeparateRowsArrays<Element>& arrays, std::int64_t first) {
    for (std::int64_t i = 0; i < 4; ++i) row[i] = arrays.weight + least(first + i, arrays.out - 1) * arrays.in;
  }
};

template <class Element>
void store_sums(const SeparateRowsArrays<Element>& arrays, std::int64_t r, std::int64_t first, FourLanes sums) {
  const std::int64_t count = least(4, arrays.out - first);
  for (std::int64_t i = 0; i < count; ++i) {
    if (arrays.bias != nullptr) sums[i] += to_float(arrays.bias[first + i]);
    store(arrays.y[r * arrays.y_stride + first + i], sums[i]);
  }
}

using Sums = Lanes[4];  // of a row with four rows of the weight

// y of row `r` and four rows of the weight, whose sums are all but the last elements'. Never inlined: a compiler may
// round the products of these elsewhere in one place and not in another.
template <class Element>
__attribute__((noinline)) void finish(const SeparateRowsArrays<Element>& arrays, std::int64_t r, std::int64_t first,
                                      const FourRows<Element>& weight, const Sums& sums) {
  const Element* const x = arrays.x + r * arrays.x_stride;
  FourLanes all = sums_of(sums[0], sums[1], sums[2], sums[3]);
  for (std::int64_t e = arrays.in / lane_count * lane_count; e < arrays.in; ++e)
    all += to_float(x[e]) * FourLanes{to_float(weight.row[0][e]), to_float(weight.row[1][e]),
                                      to_float(weight.row[2][e]), to_float(weight.row[3][e])};
  store_sums(arrays, r, first, all);
}

// A row alone: the weight passes by once. Chunks ahead are asked for, as processors do not guess them from four rows
// that are read at once.
template <class Element>
void multiply_one(const SeparateRowsArrays<Element>& arrays) {
  const std::int64_t chunks = (arrays.out + chunk - 1) / chunk;
#pragma omp parallel for schedule(static) if (arrays.in * arrays.out >= least_parallel_elements)
  for (std::int64_t number = 0; number < chunks; ++number) {
    for (std::int64_t first = number * chunk; first < least((number + 1) * chunk, arrays.out); first += 4) {
      const FourRows<Element> weight(arrays, first), later(arrays, first + chunk);
      Lanes a = {}, b = {}, c = {}, d = {};
      for (std::int64_t e = 0; e + lane_count <= arrays.in; e += lane_count) {
        Lanes lanes, in_a, in_b, in_c, in_d;
        for (std::int64_t i = 0; i < 4; ++i) __builtin_prefetch(later.row[i] + e, 0, 2);
        load(lanes, arrays.x + e);
        load(in_a, weight.row[0] + e);
        load(in_b, weight.row[1] + e);
        load(in_c, weight.row[2] + e);
        load(in_d, weight.row[3] + e);
        a += lanes * in_a;
        b += lanes * in_b;
        c += lanes * in_c;
        d += lanes * in_d;
      }
      finish(arrays, 0, first, weight, {a, b, c, d});
    }
  }
}

// sums = or += `rows` rows of x, side by side, · four rows of the weight, over `length` elements. Meanwhile the second
// cache gets what `ahead` points to: memory is as slow as sixteen rows' arithmetic, and would wait for it else.
template <std::int64_t rows>
void add_tile(const float* x, const float* const (&weight)[4], std::int64_t length, const char* ahead,
              std::int64_t ahead_step, bool adds, Sums* sums) {
  Lanes a[rows] = {}, b[rows] = {}, c[rows] = {}, d[rows] = {};
  for (std::int64_t r = 0; adds && r < rows; ++r) {
    a[r] = sums[r][0];
    b[r] = sums[r][1];
    c[r] = sums[r][2];
    d[r] = sums[r][3];
  }
  for (std::int64_t e = 0; e < length; e += lane_count) {
    Lanes lanes, in_a, in_b, in_c, in_d;
    __builtin_prefetch(ahead, 0, 2);
    ahead += ahead_step;
    load(in_a, weight[0] + e);
    load(in_b, weight[1] + e);
    load(in_c, weight[2] + e);
    load(in_d, weight[3] + e);
    for (std::int64_t r = 0; r < rows; ++r) {
      load(lanes, x + r * length + e);
      a[r] += lanes * in_a;
      b[r] += lanes * in_b;
      c[r] += lanes * in_c;
      d[r] += lanes * in_d;
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    sums[r][0] = a[r];
    sums[r][1] = b[r];
    sums[r][2] = c[r];
    sums[r][3] = d[r];
  }
}

// Calls `rest` for so many rows, `most` at most, which it gets as a constant.
template <std::int64_t most, class Rest>
void with_rest_of_tile(std::int64_t rows, const Rest& rest) {
  if (rows == most) return rest.template operator()<most>();
  if constexpr (most > 1) with_rest_of_tile<most - 1>(rows, rest);
}

// In fp32: where they are, or in `copy`.
const float* in_floats(const float* x, std::int64_t, float*) { return x; }
const float* in_floats(const std::uint16_t* x, std::int64_t length, float* copy) {
  for (std::int64_t e = 0; e < length; e += lane_count) {
    Lanes lanes;
    load(lanes, x + e);
    __builtin_memcpy(copy + e, &lanes, sizeof lanes);
  }
  return copy;
}

// The rows and elements that are multiplied with a chunk of the weight at once.
struct Part {
  const float* x;  // [rows, length]
  std::int64_t rows, begin, length;
};

// sums[row] = or, behind a row's first elements, += the part's products with four rows of the weight; `next` are rows
// that come later.
template <class Element>
void add_part(const Part& part, const FourRows<Element>& weight, const Element* const (&next)[4], Sums* sums) {
  float copies[4][block];
  const float* floats[4];
  for (std::int64_t i = 0; i < 4; ++i) floats[i] = in_floats(weight.row[i] + part.begin, part.length, copies[i]);
  std::int64_t r = 0, tiles = 0;
  const auto add = [&]<std::int64_t count> {
    const auto* ahead = reinterpret_cast<const char*>(next[tiles++ % 4]);
    add_tile<count>(part.x + r * part.length, floats, part.length, ahead, lane_count * sizeof(Element), part.begin > 0,
                    sums + r);
    r += count;
  };
  while (r + tile <= part.rows) add.template operator()<tile>();
  with_rest_of_tile<tile - 1>(part.rows - r, add);
}

template <class Element>
void multiply_chunk(const SeparateRowsArrays<Element>& arrays, std::int64_t begin) {
  const std::int64_t whole = arrays.in / lane_count * lane_count, end = least(begin + chunk, arrays.out);
  for (std::int64_t p = 0; p < arrays.rows; p += panel) {
    const std::int64_t rows = least(panel, arrays.rows - p);
    Sums sums[chunk / 4][panel];
    std::int64_t b = 0;
    do {
      const std::int64_t length = least(block, whole - b);
      const Part part{arrays.packed + p * whole + b * rows, rows, b, length};
      for (std::int64_t first = begin; first < end; first += 4) {
        const FourRows<Element> weight(arrays, first), later(arrays, first + chunk);
        const Element* const next[4] = {later.row[0] + b, later.row[1] + b, later.row[2] + b, later.row[3] + b};
        Sums* const of_rows = sums[(first - begin) / 4];
        add_part(part, weight, next, of_rows);
        for (std::int64_t r = 0; b + length == whole && r < rows; ++r) finish(arrays, p + r, first, weight, of_rows[r]);
      }
      b += block;
    } while (b < whole);
  }
}

// packed = x in fp32, panel after panel and in each block after block, so that what is multiplied at once is side by
// side: rows whose distance is a power of two would push each other out of the cache.
template <class Element>
void pack(const SeparateRowsArrays<Element>& arrays, std::int64_t row) {
  const std::int64_t whole = arrays.in / lane_count * lane_count, p = row / panel * panel;
  const std::int64_t rows = least(panel, arrays.rows - p);
  for (std::int64_t b = 0; b < whole; b += block) {
    const std::int64_t length = least(block, whole - b);
    float* const to = arrays.packed + p * whole + b * rows + (row - p) * length;
    const Element* const from = arrays.x + row * arrays.x_stride + b;
    for (std::int64_t e = 0; e < length; ++e) to[e] = to_float(from[e]);
  }
}

template <class Element>
void multiply(const SeparateRowsArrays<Element>& arrays) {
  if (arrays.rows == 1) return multiply_one(arrays);
#pragma omp parallel if (arrays.rows * arrays.in * arrays.out >= least_parallel_elements)
  {
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < arrays.rows; ++row) pack(arrays, row);
#pragma omp for schedule(static)
    for (std::int64_t begin = 0; begin < arrays.out; begin += chunk) multiply_chunk(arrays, begin);
  }
}

}  // namespace

template <>
SeparateRowsLoop<float> separate_rows_loop_for<LLMTRAIN_VECTOR_LEVEL, float>() {
  return multiply<float>;
}
template <>
SeparateRowsLoop<std::uint16_t> separate_rows_loop_for<LLMTRAIN_VECTOR_LEVEL, std::uint16_t>() {
  return multiply<std::uint16_t>;
}

}  // namespace llmtrain::kernels::vector
