// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace llmtrain::kernels::vector {

inline constexpr std::int64_t unlimited_window = std::numeric_limits<std::int64_t>::max();

// Scores of a block of consecutive queries against keys 0 … keys − 1, fp32, row after row. Query `i` of the block is
// number first_query + i and sees the latest `window` keys up to its own number.
struct ScoreBlock {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t first_query = 0;
  float scale = 1;
  std::int64_t window = unlimited_window;
};

// An element of a row that is kept in FP8, E4M3 as in Micikevicius et al. (arXiv 2209.05433): four bits of exponent and
// three of mantissa, up to 448.
struct Fp8Element {
  std::uint8_t bits;
};

// Consecutive keys in rows of `dim` elements one after the other, with their values. Those of a byte, std::int8_t and
// Fp8Element, are to be multiplied by a scale for each row.
template <class Stored>
struct KeyRun {
  const Stored* keys;
  const Stored* values;
  std::int64_t count = 0;
  const float* key_scales = nullptr;  // [count], of bytes alone
  const float* value_scales = nullptr;
};

// One query and all the keys that it sees, in runs of which each but the last has a multiple of four.
template <class Value, class Stored = Value>
struct SingleQuery {
  const Value* query;
  const KeyRun<Stored>* runs;
  std::int64_t run_count = 0;
  std::int64_t count = 0;   // of keys in all runs
  std::int64_t unseen = 0;  // keys at the first run's beginning, less than all, that it does not see
  std::int64_t dim = 0;
  float scale = 1;
  float sink = -std::numeric_limits<float>::infinity();  // a further score, of no value
  const float* bias = nullptr;                           // [count], added to scaled scores; null: none
  float* scratch = nullptr;                              // [count + dim], and dim more for keys of bytes
  Value* out = nullptr;                                  // [dim]
  float* log_sum_exp = nullptr;                          // of the scaled scores and the sink; null: not asked for
};

// What is done with rows whose elements are stored as bytes.
template <class Value, class Byte>
struct ByteRowLoops {
  // AttentionLoops::attend() of keys and values as quantize() stores them.
  void (*attend)(const SingleQuery<Value, Byte>& single);
  // payload = x / scale of `count` elements, rounded to nearest, ties to even; scale = max |x| / the largest number
  // that a byte stands for, 127 of int8 and 448 of FP8. Zeros, and what is too small for a normal scale, have the scale
  // 0; with a number that is not finite neither is the scale.
  void (*quantize)(const Value* x, std::int64_t count, Byte* payload, float& scale);
};

// `Value` is what the next matrix product takes: float, or the bits of a bf16. For float the outputs may be the memory
// of the scores (probabilities) and of the probability gradients (score gradients).
template <class Value>
struct AttentionLoops {
  // probabilities = softmax(scale·scores) over the keys that each query sees, 0 elsewhere; log_sum_exp [queries].
  void (*softmax)(const ScoreBlock& block, const float* scores, Value* probabilities, float* log_sum_exp);
  // Recomputes the probabilities from log_sum_exp, and score_gradients = scale·probabilities·(dprobabilities − delta),
  // 0 where a query sees none. delta [queries] is Σ dout·out of each query.
  void (*softmax_backward)(const ScoreBlock& block, const float* scores, const float* log_sum_exp,
                           const float* dprobabilities, const float* delta, Value* probabilities,
                           Value* score_gradients);
  // Σ a·b.
  float (*dot)(const Value* a, const Value* b, std::int64_t count);
  // out = softmax(scale · query · keysᵀ) · values, all in fp32 until it is stored: the same bits however the keys are
  // divided into runs.
  void (*attend)(const SingleQuery<Value>& single);
  ByteRowLoops<Value, std::int8_t> int8;
  ByteRowLoops<Value, Fp8Element> fp8;

  template <class Byte>
  const ByteRowLoops<Value, Byte>& of_rows() const {
    if constexpr (std::is_same_v<Byte, std::int8_t>)
      return int8;
    else
      return fp8;
  }
};

struct AttentionKernels {
  AttentionLoops<float> fp32;
  AttentionLoops<std::uint16_t> bf16;
};

template <int level>
AttentionKernels attention_kernels_for();

}  // namespace llmtrain::kernels::vector
