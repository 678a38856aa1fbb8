// SPDX-License-Identifier: Apache-2.0
#include "kernels/accumulation_type.h"
#include "kernels/attention/flash_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/zeros.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

namespace llmtrain::kernels {
namespace {

enum class Mask { none, causal };

// [S_q, S]: −∞ where a key is not among the latest `window` up to its query.
at::Tensor outside_window(const SequencePart& queries, std::int64_t window, const at::Tensor& query,
                          const at::Tensor& key) {
  const at::Tensor keys = at::arange(key.size(2), query.options().dtype(at::kLong));
  std::vector<at::Tensor> pieces;
  for (const PositionRun& run : queries.runs_of(query.size(2))) {
    const at::Tensor own = at::arange(run.begin, run.begin + run.length, keys.options()).unsqueeze(1);
    pieces.push_back(keys.gt(own).logical_or_(keys.le(own - window)));
  }
  const at::Tensor mask = at::cat(pieces);
  return at::zeros(mask.sizes(), query.options()).masked_fill_(mask, -std::numeric_limits<double>::infinity());
}

// One call's tensors, [B, heads, S, D], and scale; statistics are [B, heads, S].
struct ScaledOperands {
  at::Tensor query, key, value;
  double scale;
  std::optional<at::Tensor> mask{};  // added to the scores
};

AttentionOutput attend(const ScaledOperands& x, Mask mask) {
  const auto [out, log_sum_exp] = at::_scaled_dot_product_flash_attention_for_cpu(
      x.query, x.key, x.value, 0.0, mask == Mask::causal, x.mask, x.scale);
  return {out, log_sum_exp};
}

AttentionGradients attend_backward(const at::Tensor& dout, const ScaledOperands& x, const AttentionOutput& saved,
                                   Mask mask) {
  AttentionGradients d;
  std::tie(d.query, d.key, d.value) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      dout, x.query, x.key, x.value, saved.out, saved.statistics, 0.0, mask == Mask::causal, x.mask, x.scale);
  return d;
}

ScaledOperands with_keys(const ScaledOperands& x, const PositionRun& run) {
  return {x.query, x.key.narrow(2, run.begin, run.length), x.value.narrow(2, run.begin, run.length), x.scale};
}

// The softmax over the union of two sets of keys: each part's output weighted by its share of the whole sum,
// exp(lse_part − lse). In the type of sums, as it is one of two rounded results.
AttentionOutput joined(const AttentionOutput& a, const AttentionOutput& b) {
  const at::Tensor log_sum_exp = at::logaddexp(a.statistics, b.statistics);
  const auto weighted = [&](const AttentionOutput& part) {
    return part.out.to(log_sum_exp.scalar_type()) * (part.statistics - log_sum_exp).exp().unsqueeze(3);
  };
  return {(weighted(a) + weighted(b)).to(a.out.scalar_type()), log_sum_exp};
}

// Queries at the positions of `run` against all keys that they see.
AttentionOutput attend_run(const ScaledOperands& x, const PositionRun& run) {
  const AttentionOutput own = attend(with_keys(x, run), Mask::causal);
  // A run at the start of the sequence has no earlier keys.
  if (run.begin == 0) return own;
  return joined(attend(with_keys(x, {0, run.begin}), Mask::none), own);
}

// Adds one run's gradients to the sums; keys and values collect contributions from every run.
void add_gradients(AttentionGradients& sums, const AttentionGradients& part, const PositionRun& rows,
                   const PositionRun& keys) {
  sums.query.narrow(2, rows.begin, rows.length).add_(part.query);
  sums.key.narrow(2, keys.begin, keys.length).add_(part.key);
  sums.value.narrow(2, keys.begin, keys.length).add_(part.value);
}

// The operands, and what belongs to the query rows of one run.
struct RunBackward {
  ScaledOperands operands;
  AttentionOutput saved;
  at::Tensor dout;
};

RunBackward backward_of(const ScaledOperands& x, const AttentionOutput& saved, const at::Tensor& dout,
                        const PositionRun& rows) {
  const auto cut = [&](const at::Tensor& t) { return t.narrow(2, rows.begin, rows.length); };
  return {{cut(x.query), x.key, x.value, x.scale}, {cut(saved.out), cut(saved.statistics).contiguous()}, cut(dout)};
}

}  // namespace

AttentionOutput library_flash_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                const AttentionCall& call) {
  const double scale = call.scale_of(query.size(3));
  if (!call.is_causal) return attend({query, key, value, scale}, Mask::none);
  if (call.window)
    return attend({query, key, value, scale, outside_window(call.queries, *call.window, query, key)}, Mask::none);
  // One call where the queries are the whole sequence; the parts below cost a second pass over the outputs.
  if (call.queries.is_whole()) return attend({query, key, value, scale}, Mask::causal);
  std::vector<at::Tensor> outs, statistics;
  std::int64_t row = 0;
  for (const PositionRun& run : call.queries.runs_of(query.size(2))) {
    const AttentionOutput part = attend_run({query.narrow(2, row, run.length), key, value, scale}, run);
    outs.push_back(part.out);
    statistics.push_back(part.statistics);
    row += run.length;
  }
  return {at::cat(outs, 2), at::cat(statistics, 2)};
}

AttentionGradients library_flash_attention_backward(const at::Tensor& dout, const at::Tensor& query,
                                                    const at::Tensor& key, const at::Tensor& value,
                                                    const AttentionOutput& saved, const AttentionCall& call) {
  ScaledOperands all{query, key, value, call.scale_of(query.size(3))};
  if (call.window) all.mask = outside_window(call.queries, *call.window, query, key);
  if (!call.is_causal || call.window) return attend_backward(dout, all, saved, Mask::none);
  if (call.queries.is_whole()) return attend_backward(dout, all, saved, Mask::causal);
  const auto sum_of = [](const at::Tensor& x) { return at::zeros(x.sizes(), x.options().dtype(accumulation_type(x))); };
  // Given the output and log-sum-exp over all keys, the backward over some keys uses their true probabilities, so the
  // gradients of the two parts simply add.
  AttentionGradients sums{sum_of(query), sum_of(key), sum_of(value)};
  std::int64_t row = 0;
  for (const PositionRun& run : call.queries.runs_of(query.size(2))) {
    const PositionRun rows{row, run.length}, past{0, run.begin};
    const RunBackward x = backward_of(all, saved, dout, rows);
    add_gradients(sums, attend_backward(x.dout, with_keys(x.operands, run), x.saved, Mask::causal), rows, run);
    if (run.begin > 0)
      add_gradients(sums, attend_backward(x.dout, with_keys(x.operands, past), x.saved, Mask::none), rows, past);
    row += run.length;
  }
  return sums;
}

}  // namespace llmtrain::kernels
