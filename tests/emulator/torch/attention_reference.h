// SPDX-License-Identifier: Apache-2.0
// Attention of several sequences by its definition, on the host, in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace emulated {

// The values of LibTorch's CustomMaskType: all keys, those up to the query's own index, or, where there are more keys
// than queries, those before the last query's as far as the query's is before the last.
enum class Mask { none = 0, from_top_left = 1, from_bottom_right = 2 };
// Flash attention multiplies values with probabilities of its inputs' type.
enum class Rounding { none, probabilities };

struct AttentionKind {
  Mask mask;
  double scale;
  Rounding rounding;
};

// Rows begin … begin + length − 1 of entry `batch`.
struct RowRange {
  std::int64_t batch, begin, length;
};
struct Sequence {
  RowRange queries, keys;
};
using Sequences = std::vector<Sequence>;
Sequences batch_sequences(std::int64_t batch, std::int64_t queries, std::int64_t keys);
Sequences ranges(const at::Tensor& starts_q, const at::Tensor& starts_k);  // int32, on the host

// Log-sum-exps: [sequences, heads, at least their queries], or [heads, all rows].
struct Sums {
  at::Tensor values;
  bool is_by_row;
  static Sums by_row(const at::Tensor& values) { return {values, true}; }
  static Sums by_sequence(const at::Tensor& values) { return {values, false}; }
  at::Tensor of(std::size_t sequence, const RowRange& queries) const;  // [heads, queries], a view
};

// [B, S, heads, D] or [rows, heads, D]; query head h reads key head h / (heads / key heads).
struct AttentionInputs {
  at::Tensor query, key, value;
};
struct AttentionResults {
  at::Tensor dout, out;
  Sums sums;
};

void attend(const AttentionInputs& x, const Sequences& all, const AttentionKind& kind, const at::Tensor& out,
            const Sums& sums);
void attend_backward(const AttentionInputs& x, const AttentionResults& saved, const Sequences& all,
                     const AttentionKind& kind, const AttentionInputs& gradients);
// Changes x in its last bits, differently in each call: what sums in no fixed order do.
void disturb(const at::Tensor& x);

}  // namespace emulated
