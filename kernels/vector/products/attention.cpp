// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/products/attention.h"

#include <limits>
#include <type_traits>

#include "kernels/vector/math.h"
#include "kernels/vector/products/byte_rows.h"
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
template <int columns, class Value, class Stored>
void sum_columns(const SingleQuery<Value, Stored>& single, std::int64_t first, const float* weights, float* sums) {
  Lanes partial[4][columns] = {}, lanes;
  for (std::int64_t r = 0; r < single.run_count; ++r) {
    const KeyRun<Stored>& run = single.runs[r];
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

// sums = weights · values, of the elements from `e` on.
template <class Value, class Stored>
void sum_from(const SingleQuery<Value, Stored>& single, std::int64_t e, const float* weights, float* sums) {
  const std::int64_t dim = single.dim;
  for (; e + 2 * lane_count <= dim; e += 2 * lane_count) sum_columns<2>(single, e, weights, sums + e);
  for (; e + lane_count <= dim; e += lane_count) sum_columns<1>(single, e, weights, sums + e);
  clear(sums + e, dim - e);
  for (std::int64_t r = 0; e < dim && r < single.run_count; ++r) {
    const KeyRun<Stored>& run = single.runs[r];
    for (std::int64_t i = 0; i < run.count; ++i)
      for (std::int64_t rest = e; rest < dim; ++rest) sums[rest] += weights[i] * to_float(run.values[i * dim + rest]);
    weights += run.count;
  }
}

// Where both types are the same, rows have no scales.
template <class Byte, class Value>
concept HasScales = !std::is_same_v<Byte, Value>;

// sums = weights · values of 64 elements of each row of bytes, which stay arranged. Two rows at a time.
template <class Value, HasScales<Value> Byte>
void sum_arranged(const SingleQuery<Value, Byte>& single, std::int64_t first, const float* weights, float* sums) {
  Quarters partial[2] = {}, lanes;
  for (std::int64_t r = 0; r < single.run_count; ++r) {
    const KeyRun<Byte>& run = single.runs[r];
    const auto add = [&](int row, std::int64_t i) {
      load_arranged(lanes, run.values + i * single.dim + first);
      for (int j = 0; j < quarters; ++j) partial[row][j] += weights[i] * lanes[j];
    };
    std::int64_t i = 0;
    for (; i + 2 <= run.count; i += 2) {
      add(0, i);
      add(1, i + 1);
    }
    if (i < run.count) add(0, i);
    weights += run.count;
  }
  for (int j = 0; j < quarters; ++j) {
    const Lanes sum = partial[0][j] + partial[1][j];
    __builtin_memcpy(sums + j * lane_count, &sum, sizeof sum);
  }
}

// The scores of all keys, before their scale.
template <class Value>
void score(const SingleQuery<Value>& single, float* scores) {
  for (std::int64_t r = 0; r < single.run_count; scores += single.runs[r++].count)
    row_products(single.query, single.runs[r].keys, single.runs[r].count, single.dim, scores);
}

template <class Value, HasScales<Value> Byte>
void score(const SingleQuery<Value, Byte>& single, float* scores) {
  float* query = single.scratch + single.count;
  float* arranged = query + single.dim;
  for (std::int64_t e = 0; e < single.dim; ++e) query[e] = to_float(single.query[e]);
  arrange(query, single.dim, arranged);
  for (std::int64_t r = 0; r < single.run_count; ++r) {
    const KeyRun<Byte>& run = single.runs[r];
    byte_row_products(arranged, run.keys, run.count, single.dim, scores);
    for (std::int64_t i = 0; i < run.count; ++i) scores[i] *= run.key_scales[i];
    scores += run.count;
  }
}

// sums = weights · values.
template <class Value>
void weighted_sum(const SingleQuery<Value>& single, const float* weights, float* sums) {
  sum_from(single, 0, weights, sums);
}

// The values' scales become factors of their weights.
template <class Value, HasScales<Value> Byte>
void weighted_sum(const SingleQuery<Value, Byte>& single, float* weights, float* sums) {
  float* factors = weights;
  for (std::int64_t r = 0; r < single.run_count; ++r) {
    const KeyRun<Byte>& run = single.runs[r];
    for (std::int64_t i = 0; i < run.count; ++i) factors[i] *= run.value_scales[i];
    factors += run.count;
  }
  float* arranged = sums + single.dim;
  std::int64_t e = 0;
  for (; e + arranged_count <= single.dim; e += arranged_count) sum_arranged(single, e, weights, arranged + e);
  sum_from(single, e, weights, arranged);
  restore_order(arranged, single.dim, sums);
}

template <class Value, class Stored>
void attend(const SingleQuery<Value, Stored>& single) {
  float* sums = single.scratch + single.count;
  float* weights = single.scratch;
  score(single, weights);
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

// The largest magnitude, by its bits: a NaN's are larger than any number's.
template <class Value>
float largest_magnitude(const Value* x, std::int64_t count) {
  std::int32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t bits = __builtin_bit_cast(std::int32_t, to_float(x[i])) & 0x7FFFFFFF;
    largest = bits > largest ? bits : largest;
  }
  return __builtin_bit_cast(float, largest);
}

template <class Value, class Byte>
void quantize(const Value* x, std::int64_t count, Byte* payload, float& scale) {
  const float largest = largest_magnitude(x, count) / largest_of(Byte{});
  scale = largest < std::numeric_limits<float>::min() ? 0 : largest;
  const float inverse = scale > 0 && scale <= std::numeric_limits<float>::max() ? 1 / scale : 0;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) store_rounded(payload[i], to_float(x[i]) * inverse);
}

template <class Value, class Byte>
constexpr ByteRowLoops<Value, Byte> byte_loops_of() {
  return {attend<Value, Byte>, quantize<Value, Byte>};
}

template <class Value>
AttentionLoops<Value> loops_of() {
  return {softmax<Value>,
          softmax_backward<Value>,
          dot<Value>,
          attend<Value, Value>,
          byte_loops_of<Value, std::int8_t>(),
          byte_loops_of<Value, Fp8Element>()};
}

}  // namespace

template <>
AttentionKernels attention_kernels_for<LLMTRAIN_VECTOR_LEVEL>() {
  return {.fp32 = loops_of<float>(), .bf16 = loops_of<std::uint16_t>()};
}

}  // namespace llmtrain::kernels::vector
