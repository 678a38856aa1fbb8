// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/norm.h"

#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

// Elements below which starting a second thread costs more than it saves.
constexpr std::int64_t least_parallel_elements = 16384;

struct Statistics {
  float mean;
  float rstd;
};

// Σ term(i). Four sums at a time: one alone would wait for the latency of each addition.
template <class Term>
float sum_terms(std::int64_t width, Term term) {
  const std::int64_t quarter = width / 4;
  float first = 0;
  float second = 0;
  float third = 0;
  float fourth = 0;
#pragma omp simd reduction(+ : first, second, third, fourth)
  for (std::int64_t i = 0; i < quarter; ++i) {
    first += term(i);
    second += term(quarter + i);
    third += term(2 * quarter + i);
    fourth += term(3 * quarter + i);
  }
  for (std::int64_t i = 4 * quarter; i < width; ++i) first += term(i);
  return (first + second) + (third + fourth);
}

template <class Element>
float row_sum(const Element* x, std::int64_t width) {
  return sum_terms(width, [=](std::int64_t i) { return to_float(x[i]); });
}

// residual += x; the sum is that of the rounded result.
template <class Element>
float add_row(Element* residual, const Element* x, std::int64_t width) {
  return sum_terms(width, [=](std::int64_t i) {
    // The norm must see the residual as it is stored, or recompute would not reproduce it.
    store(residual[i], to_float(residual[i]) + to_float(x[i]));
    return to_float(residual[i]);
  });
}

template <class Element>
float row_squares(const Element* x, float mean, std::int64_t width) {
  return sum_terms(width, [=](std::int64_t i) {
    const float centred = to_float(x[i]) - mean;
    return centred * centred;
  });
}

// Two passes over a row that is in the cache by then: Σ(x − mean)² does not cancel as Σx² − (Σx)²/n would.
template <class Element>
Statistics row_statistics(const Element* x, float mean, std::int64_t width, float eps) {
  const float variance = row_squares(x, mean, width) / static_cast<float>(width);
  return {mean, 1.0F / __builtin_sqrtf(variance + eps)};
}

template <class Element>
void normalize_row(const Element* __restrict x, const NormForwardArrays<Element>& arrays, const Statistics& statistics,
                   Element* __restrict y) {
  const float* __restrict weight = arrays.weight;
  const float* __restrict bias = arrays.bias;
  const float mean = statistics.mean;
  const float rstd = statistics.rstd;
#pragma omp simd
  for (std::int64_t i = 0; i < arrays.width; ++i) {
    store(y[i], multiply_add((to_float(x[i]) - mean) * rstd, weight[i], bias[i]));
  }
}

enum class Residual { none, added };

template <Residual residual, class Element>
void forward_row(const NormForwardArrays<Element>& arrays, std::int64_t row) {
  const std::int64_t width = arrays.width;
  const Element* x = arrays.x + row * width;
  // 0 for root-mean-square rows, so that both kinds share the code below.
  float mean = 0;
  if constexpr (residual == Residual::added) {
    const float sum = add_row(arrays.residual + row * width, x, width);
    x = arrays.residual + row * width;
    if (arrays.mean != nullptr) mean = sum / static_cast<float>(width);
  } else if (arrays.mean != nullptr) {
    mean = row_sum(x, width) / static_cast<float>(width);
  }
  const Statistics statistics = row_statistics(x, mean, width, arrays.eps);
  if (arrays.mean != nullptr) arrays.mean[row] = mean;
  arrays.rstd[row] = statistics.rstd;
  normalize_row(x, arrays, statistics, arrays.y + row * width);
}

template <Residual residual, class Element>
void forward(const NormForwardArrays<Element>& arrays) {
#pragma omp parallel for schedule(static) if (arrays.rows * arrays.width >= least_parallel_elements)
  for (std::int64_t row = 0; row < arrays.rows; ++row) forward_row<residual>(arrays, row);
}

template <class Element>
void recompute(const NormForwardArrays<Element>& arrays) {
#pragma omp parallel for schedule(static) if (arrays.rows * arrays.width >= least_parallel_elements)
  for (std::int64_t row = 0; row < arrays.rows; ++row) {
    const Statistics statistics{arrays.mean == nullptr ? 0.0F : arrays.mean[row], arrays.rstd[row]};
    normalize_row(arrays.x + row * arrays.width, arrays, statistics, arrays.y + row * arrays.width);
  }
}

// Root-mean-square rows neither subtract a mean nor have a bias; as a template parameter this costs the loops nothing.
enum class Mean { zero, taken };

// With g = dy·weight and h = (x − mean)·rstd: Σ g, Σ g·h, and the row's share of the gradients of weight and bias.
struct RowSums {
  float gradient;
  float projection;
};

template <Mean mean_mode, class Element>
RowSums reduce_row(const NormBackwardArrays<Element>& arrays, const Statistics& statistics, std::int64_t row,
                   float* __restrict dweight, float* __restrict dbias) {
  const Element* __restrict dy = arrays.dy + row * arrays.width;
  const Element* __restrict x = arrays.x + row * arrays.width;
  const float* __restrict weight = arrays.weight;
  const float mean = statistics.mean;
  const float rstd = statistics.rstd;
  float gradient_sum = 0;
  float projection_sum = 0;
#pragma omp simd reduction(+ : gradient_sum, projection_sum)
  for (std::int64_t i = 0; i < arrays.width; ++i) {
    const float d = to_float(dy[i]);
    const float normalized = (to_float(x[i]) - mean) * rstd;
    const float g = d * weight[i];
    // The gradients of weight and bias are summed here because dy and x are being read anyway.
    dweight[i] = multiply_add(d, normalized, dweight[i]);
    projection_sum = multiply_add(g, normalized, projection_sum);
    if constexpr (mean_mode == Mean::taken) {
      dbias[i] += d;
      gradient_sum += g;
    }
  }
  return {gradient_sum, projection_sum};
}

template <class Element>
void input_gradient_row(const NormBackwardArrays<Element>& arrays, const Statistics& statistics, const RowSums& sums,
                        std::int64_t row) {
  const Element* __restrict dy = arrays.dy + row * arrays.width;
  const Element* __restrict x = arrays.x + row * arrays.width;
  const float* __restrict weight = arrays.weight;
  Element* __restrict dx = arrays.dx + row * arrays.width;
  const float mean = statistics.mean;
  const float rstd = statistics.rstd;
  // dx += rstd·(g − mean(g) − h·mean(g·h)).
  const float gradient_mean = sums.gradient / static_cast<float>(arrays.width);
  const float projection_mean = sums.projection / static_cast<float>(arrays.width);
#pragma omp simd
  for (std::int64_t i = 0; i < arrays.width; ++i) {
    const float normalized = (to_float(x[i]) - mean) * rstd;
    const float g = multiply_add(to_float(dy[i]), weight[i], -gradient_mean);
    store(dx[i], multiply_add(multiply_add(-normalized, projection_mean, g), rstd, to_float(dx[i])));
  }
}

template <Mean mean_mode, class Element>
void backward_block(const NormBackwardArrays<Element>& arrays, std::int64_t block) {
  const std::int64_t first = block * norm_block_rows;
  const std::int64_t last = first + norm_block_rows < arrays.rows ? first + norm_block_rows : arrays.rows;
  float* dweight = arrays.partials + block * 2 * arrays.width;
  float* dbias = dweight + arrays.width;
  // Scratch memory comes uninitialised.
  for (std::int64_t i = 0; i < 2 * arrays.width; ++i) dweight[i] = 0;
  for (std::int64_t row = first; row < last; ++row) {
    const Statistics statistics{mean_mode == Mean::taken ? arrays.mean[row] : 0.0F, arrays.rstd[row]};
    // Two passes over a row: its sums are needed for every element of its gradient. The second finds it in the cache.
    const RowSums sums = reduce_row<mean_mode>(arrays, statistics, row, dweight, dbias);
    input_gradient_row(arrays, statistics, sums, row);
  }
}

// Threads divide the columns, so that each column's blocks are added in order by one of them.
constexpr std::int64_t column_chunk = 64;

// sums[i] = Σ partials[block, i] for `count` columns, in the order of the blocks.
void sum_columns(const float* __restrict partials, std::int64_t blocks, std::int64_t stride, std::int64_t count,
                 float* __restrict sums) {
  // The number of blocks grows with the tokens: in float64 their sum adds no visible error.
  double totals[column_chunk] = {};
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t i = 0; i < count; ++i) totals[i] += partials[block * stride + i];
  }
  for (std::int64_t i = 0; i < count; ++i) sums[i] = static_cast<float>(totals[i]);
}

template <class Element>
void sum_blocks(const NormBackwardArrays<Element>& arrays, std::int64_t blocks) {
  const std::int64_t width = arrays.width;
#pragma omp parallel for schedule(static) if (blocks * width >= least_parallel_elements)
  for (std::int64_t first = 0; first < width; first += column_chunk) {
    const std::int64_t count = width - first < column_chunk ? width - first : column_chunk;
    const float* partials = arrays.partials + first;
    sum_columns(partials, blocks, 2 * width, count, arrays.dweight + first);
    if (arrays.dbias == nullptr) continue;
    sum_columns(partials + width, blocks, 2 * width, count, arrays.dbias + first);
  }
}

template <class Element>
void backward(const NormBackwardArrays<Element>& arrays) {
  // Blocks of rows are independent; their partial sums meet only afterwards, in sum_blocks().
  const std::int64_t blocks = (arrays.rows + norm_block_rows - 1) / norm_block_rows;
#pragma omp parallel for schedule(static) if (arrays.rows * arrays.width >= least_parallel_elements)
  for (std::int64_t block = 0; block < blocks; ++block) {
    if (arrays.mean != nullptr) {
      backward_block<Mean::taken>(arrays, block);
    } else {
      backward_block<Mean::zero>(arrays, block);
    }
  }
  sum_blocks(arrays, blocks);
}

template <class Element>
NormKernels<Element> kernels() {
  return {.forward = forward<Residual::none, Element>,
          .add_forward = forward<Residual::added, Element>,
          .recompute = recompute<Element>,
          .backward = backward<Element>};
}

}  // namespace

template <>
NormKernels<float> norm_kernels_for<LLMTRAIN_VECTOR_LEVEL, float>() {
  return kernels<float>();
}

template <>
NormKernels<std::uint16_t> norm_kernels_for<LLMTRAIN_VECTOR_LEVEL, std::uint16_t>() {
  return kernels<std::uint16_t>();
}

}  // namespace llmtrain::kernels::vector
