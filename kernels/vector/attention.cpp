// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/attention.h"

#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

// Causal mask: a query sees itself and what comes before.
std::int64_t visible_keys(const ScoreBlock& block, std::int64_t query) {
  const std::int64_t seen = block.first_query + query + 1;
  return seen < block.keys ? seen : block.keys;
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
    const std::int64_t seen = visible_keys(block, query);
    // The maximum of the unscaled scores is that of the scaled ones too, as the scale is positive; subtracting it keeps
    // exponentials from overflowing.
    const float maximum = maximum_of(row, seen);
    const float sum = exponential_sum(row, seen, block.scale, maximum);
    // The exponentials are evaluated again rather than stored: bf16 output could not hold them exactly.
    const float factor = 1.0F / sum;
#pragma omp simd
    for (std::int64_t i = 0; i < seen; ++i) store(out[i], decay((row[i] - maximum) * block.scale) * factor);
    // The next product runs over all keys of the block, so masked ones must be 0.
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
    const std::int64_t seen = visible_keys(block, query);
#pragma omp simd
    for (std::int64_t i = 0; i < seen; ++i) {
      // One exponential: the log-sum-exp contains maximum and sum.
      const float probability = decay(row[i] * block.scale - log_sum_exp[query]);
      const float gradient = probability * (drow[i] - delta[query]) * block.scale;
      store(out[i], probability);
      store(dout[i], gradient);
    }
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

template <class Value>
void copy(const float* source, Value* destination, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) store(destination[i], source[i]);
}

}  // namespace

template <>
AttentionKernels attention_kernels_for<LLMTRAIN_VECTOR_LEVEL>() {
  return {.fp32 = {softmax<float>, softmax_backward<float>, dot<float>, copy<float>},
          .bf16 = {softmax<std::uint16_t>, softmax_backward<std::uint16_t>, dot<std::uint16_t>, copy<std::uint16_t>}};
}

}  // namespace llmtrain::kernels::vector
