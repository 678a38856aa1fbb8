// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/torch/attention_reference.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>

#include <atomic>
#include <limits>

namespace emulated {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// One sequence as [heads, rows, D]: a view.
at::Tensor rows_of(const at::Tensor& x, const RowRange& range) {
  const at::Tensor entry = x.dim() == 4 ? x.select(0, range.batch) : x;
  return entry.narrow(0, range.begin, range.length).transpose(0, 1);
}

// In fp32, a key head for each query head.
at::Tensor wide_rows(const at::Tensor& x, const RowRange& range, std::int64_t heads) {
  const at::Tensor rows = rows_of(x, range).to(at::kFloat);
  return rows.repeat_interleave(heads / rows.size(0), 0);
}

at::Tensor scores_of(const at::Tensor& query, const at::Tensor& key, const AttentionKind& kind) {
  const at::Tensor scores = at::matmul(query, key.transpose(1, 2)).mul_(kind.scale);
  if (kind.mask == Mask::none) return scores;
  const std::int64_t shift = kind.mask == Mask::from_bottom_right ? scores.size(2) - scores.size(1) : 0;
  return scores + at::full({scores.size(1), scores.size(2)}, -infinity, scores.options()).triu_(1 + shift);
}

// A row without keys has the log-sum-exp +∞ and probabilities 0.
at::Tensor probabilities_of(const at::Tensor& scores, const at::Tensor& sums) {
  return (scores - sums.unsqueeze(2)).exp_();
}

at::Tensor rounded(const at::Tensor& x, at::ScalarType type, const AttentionKind& kind) {
  return kind.rounding == Rounding::none ? x : x.to(type).to(at::kFloat);
}

// [query heads, rows, D] → the sum over the query heads of each key head.
at::Tensor summed_heads(const at::Tensor& x, std::int64_t heads) {
  return x.view({heads, x.size(0) / heads, x.size(1), x.size(2)}).sum(1);
}

}  // namespace

Sequences batch_sequences(std::int64_t batch, std::int64_t queries, std::int64_t keys) {
  Sequences all;
  for (std::int64_t i = 0; i < batch; ++i) all.push_back({{i, 0, queries}, {i, 0, keys}});
  return all;
}

Sequences ranges(const at::Tensor& starts_q, const at::Tensor& starts_k) {
  const auto *const q = starts_q.const_data_ptr<int>(), *const k = starts_k.const_data_ptr<int>();
  Sequences all;
  for (std::int64_t i = 0; i + 1 < starts_q.numel(); ++i)
    all.push_back({{0, q[i], q[i + 1] - q[i]}, {0, k[i], k[i + 1] - k[i]}});
  return all;
}

at::Tensor Sums::of(std::size_t sequence, const RowRange& queries) const {
  if (is_by_row) return values.narrow(1, queries.begin, queries.length);
  return values.select(0, static_cast<std::int64_t>(sequence)).narrow(1, 0, queries.length);
}

void attend(const AttentionInputs& x, const Sequences& all, const AttentionKind& kind, const at::Tensor& out,
            const Sums& sums) {
  const std::int64_t heads = x.query.size(-2);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [queries, keys] = all[i];
    if (queries.length == 0) continue;
    const at::Tensor scores = scores_of(wide_rows(x.query, queries, heads), wide_rows(x.key, keys, heads), kind);
    at::Tensor sum = at::logsumexp(scores, {2});
    sum.masked_fill_(sum == -infinity, infinity);
    const at::Tensor probabilities = rounded(probabilities_of(scores, sum), x.query.scalar_type(), kind);
    rows_of(out, queries).copy_(at::matmul(probabilities, wide_rows(x.value, keys, heads)));
    sums.of(i, queries).copy_(sum);
  }
}

void attend_backward(const AttentionInputs& x, const AttentionResults& saved, const Sequences& all,
                     const AttentionKind& kind, const AttentionInputs& gradients) {
  const std::int64_t heads = x.query.size(-2), key_heads = x.key.size(-2);
  const at::ScalarType type = x.query.scalar_type();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [queries, keys] = all[i];
    const at::Tensor query = wide_rows(x.query, queries, heads), key = wide_rows(x.key, keys, heads);
    const at::Tensor dout = wide_rows(saved.dout, queries, heads);
    const at::Tensor probabilities = probabilities_of(scores_of(query, key, kind), saved.sums.of(i, queries));
    const at::Tensor dvalue = at::matmul(rounded(probabilities, type, kind).transpose(1, 2), dout);
    const at::Tensor delta = (dout * wide_rows(saved.out, queries, heads)).sum(2, true);
    const at::Tensor products = at::matmul(dout, wide_rows(x.value, keys, heads).transpose(1, 2));
    const at::Tensor dscores = rounded(probabilities * (products - delta), type, kind).mul_(kind.scale);
    rows_of(gradients.query, queries).copy_(at::matmul(dscores, key));
    rows_of(gradients.key, keys).copy_(summed_heads(at::matmul(dscores.transpose(1, 2), query), key_heads));
    rows_of(gradients.value, keys).copy_(summed_heads(dvalue, key_heads));
  }
}

void disturb(const at::Tensor& x) {
  static std::atomic<int> calls{0};
  x.mul_(1 + (++calls % 7) * (x.scalar_type() == at::kFloat ? 1e-7 : 4e-3));
}

}  // namespace emulated
