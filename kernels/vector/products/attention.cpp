// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/products/attention.h"

#include <limits>

#include "kernels/vector/math.h"
#include "kernels/vector/products/lanes.h"
#include "kernels/vector/products/row_products.h"

namespace llmtrain::kernels::vector {
namespace {

// Causal mask: a query sees itself and what comes before.
std::int64_t visible_keys(const ScoreBlock& block, std::int64_t query) {
  const std::int64_t seen = block.first_query + query + 1;
  return seen < block.keys ? seen : block.keys;
}

// Keys of the block that come before a query's window.
std::int64_t passed_keys(const ScoreBlock& block, std::int64_t query) {
  const std::int64_t until = block.first_query + query + 1;
  return until > block.window ? until - block.window : 0;
}

float maximum_of(const float* scores, std::int64_t count) {
  float maximum = scores[0];
#pragma omp simd reduction(max : maximum)
  for (std::int64_t i = 0; i < count; ++i) maximum = scores[i] > maximum ? scores[i] : maximum;
  return maximum;
}

float exponential_sum(const float* scores, std::int64_t count, float scale, float maximum) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += decay((scores[i] - maximum) * scale);
  return sum;
}

template <class Value>
void clear(Value* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = Value{};
}

template <class Value>
void softmax(const ScoreBlock& block, const float* scores, Value* probabilities, float* log_sum_exp) {
  for (std::int64_t query = 0; query < block.queries; ++query) {
    const float* row = scores + query * block.keys;
    Value* out = probabilities + query * block.keys;
    const std::int64_t first = passed_keys(block, query), seen = visible_keys(block, query);
    // The maximum of the unscaled scores is that of the scaled ones too, as the scale is positive; subtracting it keeps
    // exponentials from overflowing.
    const float maximum = maximum_of(row + first, seen - first);
    const float sum = exponential_sum(row + first, seen - first, block.scale, maximum);
    // The exponentials are evaluated again rather than stored: bf16 output could not hold them exactly.
    const float factor = 1.0F / sum;
#pragma omp simd
    for (std::int64_t i = first; i < seen; ++i) store(out[i], decay((row[i] - maximum) * block.scale) * factor);
    // The next product runs over all keys of the block, so masked ones must be 0.
    clear(out, first);
    clear(out + seen, block.keys - seen);
    log_sum_exp[query] = maximum * block.scale + __builtin_logf(sum);
  }
}

template <class Value>
void softmax_backward(const ScoreBlock& block, const float* scores, const float* log_sum_exp,
                      const float* dprobabilities, const float* delta, Value* probabilities, Value* score_gradients) {
  for (std::int64_t query = 0; query < block.queries; ++query) {
    const float* row = scores + query * block.keys;
    const float* drow = dprobabilities + query * block.keys;
    Value* out = probabilities + query * block.keys;
    Value* dout = score_gradients + query * block.keys;
    const std::int64_t first = passed_keys(block, query), seen = visible_keys(block, query);
#pragma omp simd
    for (std::int64_t i = first; i < seen; ++i) {
      // One exponential: the log-sum-exp contains maximum and sum.
      const float probability = decay(row[i] * block.scale - log_sum_exp[query]);
      const float gradient = probability * (drow[i] - delta[query]) * block.scale;
      store(out[i], probability);
      store(dout[i], gradient);
    }
    clear(out, first);
    clear(dout, first);
    clear(out + seen, block.keys - seen);
    clear(dout + seen, block.keys - seen);
  }
}

template <class Value>
float dot(const Value* a, const Value* b, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += to_float(a[i]) * to_float(b[i]);
  return sum;
}

// sums = weights · values of `columns` times 16 elements of each row, from element `first` on. Four rows at a time,
// with sums of their own: a sum waits for the one before it longer than a row takes to arrive.
template <int columns, class Value>
void sum_columns(const SingleQuery<Value>& single, std::int64_t first, const float* weights, float* sums) {
  Lanes partial[4][columns] = {}, lanes;
  for (std::int64_t r = 0; r < single.run_count; ++r) {
    const KeyRun<Value>& run = single.runs[r];
    const auto add = [&](int row, std::int64_t i) {
      for (int column = 0; column < columns; ++column) {
        load(lanes, run.values + i * single.dim + first + column * lane_count);
        partial[row][column] += weights[i] * lanes;
      }
    };
    std::int64_t i = 0;
    for (; i + 4 <= run.count; i += 4)
      for (int row = 0; row < 4; ++row) add(row, i + row);
    for (; i < run.count; ++i) add(0, i);
    weights += run.count;
  }
  for (int column = 0; column < columns; ++column) {
    const Lanes sum = (partial[0][column] + partial[1][column]) + (partial[2][column] + partial[3][column]);
    __builtin_memcpy(sums + column * lane_count, &sum, sizeof sum);
  }
}

// sums = weights · values.
template <class Value>
void weighted_sum(const SingleQuery<Value>& single, const float* weights, float* sums) {
  const std::int64_t dim = single.dim;
  std::int64_t e = 0;
  for (; e + 2 * lane_count <= dim; e += 2 * lane_count) sum_columns<2>(single, e, weights, sums + e);
  for (; e + lane_count <= dim; e += lane_count) sum_columns<1>(single, e, weights, sums + e);
  clear(sums + e, dim - e);
  for (std::int64_t r = 0; e < dim && r < single.run_count; ++r) {
    const KeyRun<Value>& run = single.runs[r];
    for (std::int64_t i = 0; i < run.count; ++i)
      for (std::int64_t rest = e; rest < dim; ++rest) sums[rest] += weights[i] * to_float(run.values[i * dim + rest]);
    weights += run.count;
  }
}

template <class Value>
void attend(const SingleQuery<Value>& single) {
  float* scores = single.scratch;
  float* sums = single.scratch + single.count;
  for (std::int64_t r = 0; r < single.run_count; scores += single.runs[r++].count)
    row_products(single.query, single.runs[r].keys, single.runs[r].count, single.dim, scores);
  float* weights = single.scratch;
  clear(weights, single.unseen);
  if (single.bias != nullptr)
    for (std::int64_t i = single.unseen; i < single.count; ++i) weights[i] += single.bias[i] / single.scale;
  const float of_keys = maximum_of(weights + single.unseen, single.count - single.unseen);
  const float of_sink = single.sink / single.scale, maximum = of_sink > of_keys ? of_sink : of_keys;
  float total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = single.unseen; i < single.count; ++i) {
    weights[i] = decay((weights[i] - maximum) * single.scale);
    total += weights[i];
  }
  if (single.sink > -std::numeric_limits<float>::infinity()) total += decay(single.sink - maximum * single.scale);
  if (single.log_sum_exp != nullptr) *single.log_sum_exp = maximum * single.scale + __builtin_logf(total);
  weighted_sum(single, weights, sums);
#pragma omp simd
  // Divided at the end: once for each element of the output instead of once for each key.
  for (std::int64_t e = 0; e < single.dim; ++e) store(single.out[e], sums[e] / total);
}

}  // namespace

template <>
AttentionKernels attention_kernels_for<LLMTRAIN_VECTOR_LEVEL>() {
  return {.fp32 = {softmax<float>, softmax_backward<float>, dot<float>, attend<float>},
          .bf16 = {softmax<std::uint16_t>, softmax_backward<std::uint16_t>, dot<std::uint16_t>, attend<std::uint16_t>}};
}

}  // namespace llmtrain::kernels::vector
