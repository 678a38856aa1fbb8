// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/attention/attention.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {

// Sequences of queries and of keys, and the documents of both; none: the sequences.
struct AttentionRows {
  std::int64_t batch, queries, keys, heads, kv_heads, head_dim;
  std::vector<PositionRun> query_documents{}, key_documents{};  // without the second: the first
  bool is_causal = false;

  AttentionCall call(AttentionMethod method) const {
    AttentionCall call{method, {}, {}, {query_documents}};
    call.is_causal = is_causal;
    call.key_documents.runs = key_documents;
    return call;
  }
};

struct AttentionCase {
  at::Tensor query, key, value, dout, bias;

  AttentionCase as(const at::TensorOptions& options) const {
    return {query.to(options), key.to(options), value.to(options), dout.to(options),
            bias.defined() ? bias.to(options) : bias};
  }
};

inline AttentionCase random_case(const AttentionRows& x, at::ScalarType type) {
  return {random_tensor({x.batch, x.queries, x.heads, x.head_dim}, type),
          random_tensor({x.batch, x.keys, x.kv_heads, x.head_dim}, type),
          random_tensor({x.batch, x.keys, x.kv_heads, x.head_dim}, type),
          random_tensor({x.batch, x.queries, x.heads, x.head_dim}, type),
          {}};
}

struct AttentionResult {
  at::Tensor out, query, key, value, bias;
};

inline AttentionResult run(const AttentionCase& x, const AttentionCall& call) {
  const AttentionOutput output = attention_forward(x.query, x.key, x.value, call);
  const AttentionGradients d = attention_backward(x.dout, x.query, x.key, x.value, output, call);
  const auto host = [](const at::Tensor& t) { return t.to(at::kCPU); };
  return {host(output.out), host(d.query), host(d.key), host(d.value), d.bias.defined() ? host(d.bias) : d.bias};
}

// [B·S_q, B·S]: 1 where a query sees a key.
inline at::Tensor seen_pairs(const AttentionRows& x) {
  const auto sequences = [&](std::int64_t length) {
    std::vector<PositionRun> runs;
    for (std::int64_t b = 0; b < x.batch; ++b) runs.push_back({b * length, length});
    return runs;
  };
  const auto queries = x.query_documents.empty() ? sequences(x.queries) : x.query_documents;
  const auto keys = x.query_documents.empty()  ? sequences(x.keys)
                    : !x.key_documents.empty() ? x.key_documents
                                               : x.query_documents;
  at::Tensor seen = at::zeros({x.batch * x.queries, x.batch * x.keys}, at::kBool);
  auto cells = seen.accessor<bool, 2>();
  for (std::size_t d = 0; d < queries.size(); ++d)
    for (std::int64_t q = 0; q < queries[d].length; ++q)
      for (std::int64_t k = 0; k < keys[d].length; ++k)
        cells[queries[d].begin + q][keys[d].begin + k] = !x.is_causal || k <= q;
  return seen;
}

// Softmax over all pairs of rows in float64, those that are not seen left out, and PyTorch's autograd. `kept`
// multiplies the probabilities, [B, heads, S_q, S].
inline AttentionResult exact_attention(const AttentionRows& rows, const AttentionCase& given,
                                       std::optional<double> scale = std::nullopt, const at::Tensor& kept = {}) {
  const AttentionCase x = given.as(at::kDouble);
  const auto leaf = [](const at::Tensor& t) { return t.detach().clone().requires_grad_(true); };
  const at::Tensor query = leaf(x.query), key = leaf(x.key), value = leaf(x.value);
  const at::Tensor bias = x.bias.defined() ? leaf(x.bias) : at::Tensor();
  const auto flat = [&](const at::Tensor& t) {
    return t.reshape({-1, t.size(2), t.size(3)}).repeat_interleave(rows.heads / t.size(2), 1);
  };
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(rows.head_dim)));
  at::Tensor scores = at::einsum("qhd,khd->hqk", {flat(query), flat(key)}) * factor;
  // A bias is of places in sequences, whatever the sequence.
  if (bias.defined()) scores = scores + bias.repeat({1, rows.batch, rows.batch});
  const at::Tensor seen = seen_pairs(rows);
  const at::Tensor unseen = seen.logical_not(), blind = seen.any(1).logical_not().unsqueeze(1);
  at::Tensor weights = scores.masked_fill(unseen, -std::numeric_limits<double>::infinity())
                           .masked_fill(blind, 0)
                           .softmax(2)
                           .masked_fill(unseen, 0);
  if (kept.defined()) {
    const at::Tensor all = at::zeros_like(weights);
    for (std::int64_t b = 0; b < rows.batch; ++b)
      all.narrow(1, b * rows.queries, rows.queries).narrow(2, b * rows.keys, rows.keys).copy_(kept[b]);
    weights = weights * all;
  }
  const at::Tensor out = at::einsum("hqk,khd->qhd", {weights, flat(value)}).view(x.query.sizes());
  (out * x.dout).sum().backward();
  return {out.detach(), query.grad(), key.grad(), value.grad(), bias.defined() ? bias.grad() : at::Tensor()};
}

inline void check(const AttentionResult& got, const AttentionResult& want, double tolerance) {
  CHECK(largest_error(got.out, want.out) < tolerance);
  CHECK(largest_error(got.query, want.query) < 2 * tolerance);
  CHECK(largest_error(got.key, want.key) < 4 * tolerance);
  CHECK(largest_error(got.value, want.value) < 4 * tolerance);
  REQUIRE(got.bias.defined() == want.bias.defined());
  if (want.bias.defined()) CHECK(largest_error(got.bias, want.bias) < 4 * tolerance);
}

inline double tolerance_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 1e-12;
    case at::kFloat:
      return 16 * fp32_rounding;
    case at::kHalf:
      return 4 * fp16_rounding;
    default:
      return 4 * bf16_rounding;
  }
}

// An encoder's sequences, of which two end in padding, a decoder's of another length that see them, several documents
// in one sequence, some of whose partners are in another one, and documents without a partner on either side.
inline std::vector<AttentionRows> rows_of_all_kinds() {
  return {{2, 5, 5, 4, 2, 8},
          {2, 5, 9, 4, 2, 8},
          {1, 150, 7, 2, 2, 6},
          {1, 7, 300, 2, 1, 16},
          {2, 40, 40, 4, 2, 8, {{0, 40}, {40, 25}, {65, 15}}},
          {2, 40, 40, 4, 2, 8, {{0, 13}, {13, 20}, {33, 7}, {40, 40}}, {}, true},
          {2, 7, 33, 6, 2, 8, {{0, 5}, {5, 2}, {7, 6}, {13, 1}}, {{0, 30}, {30, 3}, {33, 12}, {45, 21}}},
          {2, 7, 11, 4, 4, 8, {{0, 3}, {3, 4}, {7, 7}}, {{0, 11}, {11, 5}, {16, 6}}},
          {2, 7, 11, 4, 2, 8, {{0, 7}, {7, 0}, {7, 5}, {12, 2}}, {{0, 9}, {9, 2}, {11, 11}, {22, 0}}}};
}

// What a layer makes of the real tokens of one sequence of 24, whose other rows, from 17 on, are padding, and of 20
// rows that it reads, of which 11 are real, with padding that is filled with `filling`.
inline AttentionResult with_padding(const AttentionCase& given, const AttentionRows& rows, AttentionMethod method,
                                    double filling) {
  constexpr std::int64_t queries = 17, keys = 11;
  AttentionCase x = given.as(given.query.options());
  const auto fill = [&](at::Tensor& t, std::int64_t real) {
    t = t.clone();
    t.narrow(1, real, t.size(1) - real).fill_(filling);
  };
  fill(x.query, queries);
  fill(x.dout, queries);
  fill(x.key, keys);
  fill(x.value, keys);
  const AttentionResult all = run(x, rows.call(method));
  return {all.out.narrow(1, 0, queries),
          all.query.narrow(1, 0, queries),
          all.key.narrow(1, 0, keys),
          all.value.narrow(1, 0, keys),
          {}};
}
inline const AttentionRows padded_rows{1, 24, 20, 4, 2, 16, {{0, 17}, {17, 7}}, {{0, 11}, {11, 9}}};

}  // namespace llmtrain::kernels
