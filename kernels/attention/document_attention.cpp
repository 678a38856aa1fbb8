// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/document_attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <vector>

namespace llmtrain::kernels {
namespace {

// A document's rows of [B, S, heads, D] as a sequence of its own, [1, length, heads, D]: a view.
at::Tensor document_rows(const at::Tensor& x, const PositionRun& document) {
  return x.view({1, x.size(0) * x.size(1), x.size(2), x.size(3)}).narrow(1, document.begin, document.length);
}

// Elements of a document's statistics: log-sum-exps, or the probabilities of all its keys.
std::int64_t statistics_of(const PositionRun& document, std::int64_t heads, AttentionMethod method) {
  return heads * document.length * (method == AttentionMethod::flash ? 1 : document.length);
}

at::Tensor shaped_statistics(const at::Tensor& of_document, const PositionRun& document, std::int64_t heads,
                             AttentionMethod method) {
  if (method == AttentionMethod::flash) return of_document.view({1, heads, document.length});
  return of_document.view({1, heads, document.length, document.length});
}

at::Tensor empty_like_heads(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

}  // namespace

AttentionOutput document_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                           AttentionMethod method, std::span<const PositionRun> documents) {
  AttentionOutput all{empty_like_heads(query), {}};
  std::vector<at::Tensor> statistics;
  for (const PositionRun& document : documents) {
    const AttentionOutput one = attention_forward(document_rows(query, document), document_rows(key, document),
                                                  document_rows(value, document), {method});
    document_rows(all.out, document).copy_(one.out);
    statistics.push_back(one.statistics.reshape({-1}));
  }
  all.statistics = at::cat(statistics);
  return all;
}

AttentionGradients document_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                               const at::Tensor& value, const AttentionOutput& saved,
                                               AttentionMethod method, std::span<const PositionRun> documents) {
  AttentionGradients all{empty_like_heads(query), empty_like_heads(key), empty_like_heads(value)};
  std::int64_t first = 0;
  for (const PositionRun& document : documents) {
    const std::int64_t count = statistics_of(document, query.size(2), method);
    const AttentionOutput one{
        document_rows(saved.out, document),
        shaped_statistics(saved.statistics.narrow(0, first, count), document, query.size(2), method)};
    const AttentionGradients gradients =
        attention_backward(document_rows(dout, document), document_rows(query, document), document_rows(key, document),
                           document_rows(value, document), one, {method});
    document_rows(all.query, document).copy_(gradients.query);
    document_rows(all.key, document).copy_(gradients.key);
    document_rows(all.value, document).copy_(gradients.value);
    first += count;
  }
  return all;
}

}  // namespace llmtrain::kernels
