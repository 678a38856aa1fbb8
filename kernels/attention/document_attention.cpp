// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/document_attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/accumulation_type.h"
#include "kernels/attention/flash_attention_cuda.h"

namespace llmtrain::kernels {
namespace {

// A document, and those of its queries that are at hand.
struct Part {
  PositionRun keys;        // rows of [B·S, …]
  PositionRun queries;     // rows of [B·S_q, …]
  SequencePart positions;  // of the queries, in the document
};

// This rank has `tokens` of each sequence of the queries.
Part part_at_hand(const PositionRun& document, const PositionRun& keys, const SequencePart& queries,
                  std::int64_t tokens) {
  if (queries.is_whole()) return {keys, document, {}};
  const std::int64_t sequence = document.begin / queries.whole, begin = document.begin % queries.whole;
  Part part{keys, {}, {document.length, {}}};
  std::int64_t row = sequence * tokens;  // of the run's first token
  // Rows at hand ascend with their positions, so that those within a document are consecutive.
  for (const PositionRun& run : queries.runs_of(tokens)) {
    const std::int64_t from = std::max(run.begin, begin);
    const std::int64_t length = std::min(run.begin + run.length, begin + document.length) - from;
    if (length > 0) {
      if (part.queries.length == 0) part.queries.begin = row + from - run.begin;
      part.queries.length += length;
      part.positions.runs.push_back({from - begin, length});
    }
    row += run.length;
  }
  return part;
}

std::vector<Part> parts_at_hand(const AttentionCall& call, std::int64_t tokens) {
  const std::span<const PositionRun> queries = call.documents.runs, keys = call.documents_of_keys().runs;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < queries.size(); ++i)
    parts.push_back(part_at_hand(queries[i], keys[i], call.queries, tokens));
  return parts;
}

// Rows of one sequence of [B, S, heads, D] as a sequence of their own, [1, length, heads, D]: a view, whatever the
// strides are.
at::Tensor rows_of(const at::Tensor& x, const PositionRun& rows) {
  const std::int64_t tokens = x.size(1);
  return x.narrow(0, rows.begin / tokens, 1).narrow(1, rows.begin % tokens, rows.length);
}

// The pairs of a document in what all heads' pairs of a sequence's places have, [heads, S_q, S]: a view.
at::Tensor pairs_of(const at::Tensor& all, const Part& part) {
  return all.narrow(1, part.queries.begin % all.size(1), part.queries.length)
      .narrow(2, part.keys.begin % all.size(2), part.keys.length);
}

// The call of one document.
AttentionCall call_of(const Part& part, const AttentionCall& all) {
  AttentionCall call{all.method, {}, part.positions};
  call.is_causal = all.is_causal;
  call.scale = all.scale;
  call.window = all.window;
  call.sinks = all.sinks;
  if (all.bias.defined()) call.bias = pairs_of(all.bias, part);
  return call;
}

// Elements of a document's statistics: log-sum-exps, or the probabilities of all its keys.
std::int64_t statistics_of(const Part& part, std::int64_t heads, AttentionMethod method) {
  return heads * part.queries.length * (method == AttentionMethod::flash ? 1 : part.keys.length);
}

at::Tensor shaped_statistics(const at::Tensor& of_document, const Part& part, std::int64_t heads,
                             AttentionMethod method) {
  if (method == AttentionMethod::flash) return of_document.view({1, heads, part.queries.length});
  return of_document.view({1, heads, part.queries.length, part.keys.length});
}

bool is_one_call(const at::Tensor& query, const AttentionCall& call) {
  return call.method == AttentionMethod::flash && has_cuda_flash_attention(query) && cuda_takes_documents(query, call);
}

// Contiguous: at::empty_like() would keep the strides of a transposed x.
at::Tensor empty_like_heads(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

// Queries that see no keys, and keys that no query at hand sees.
bool is_one_sided(const Part& part) { return part.queries.length == 0 || part.keys.length == 0; }
void clear(const at::Tensor& x, const PositionRun& rows) {
  if (rows.length > 0) rows_of(x, rows).zero_();
}

}  // namespace

AttentionOutput document_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                           const AttentionCall& call) {
  if (is_one_call(query, call)) return cuda_flash_attention_forward(query, key, value, call);
  AttentionOutput all{empty_like_heads(query), {}};
  std::vector<at::Tensor> statistics;
  for (const Part& part : parts_at_hand(call, query.size(1))) {
    if (is_one_sided(part)) {
      clear(all.out, part.queries);
      continue;
    }
    const AttentionOutput one = attention_forward(rows_of(query, part.queries), rows_of(key, part.keys),
                                                  rows_of(value, part.keys), call_of(part, call));
    rows_of(all.out, part.queries).copy_(one.out);
    statistics.push_back(one.statistics.reshape({-1}));
  }
  all.statistics = statistics.empty() ? at::empty({0}, query.options()) : at::cat(statistics);
  return all;
}

AttentionGradients document_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                               const at::Tensor& value, const AttentionOutput& saved,
                                               const AttentionCall& call) {
  if (is_one_call(query, call)) return cuda_flash_attention_backward(dout, query, key, value, saved, call);
  AttentionGradients all{empty_like_heads(query), empty_like_heads(key), empty_like_heads(value)};
  if (call.bias.defined()) all.bias = at::zeros(call.bias.sizes(), query.options().dtype(accumulation_type(query)));
  if (call.sinks.defined()) all.sinks = at::zeros({query.size(2)}, query.options().dtype(accumulation_type(query)));
  std::int64_t first = 0;
  for (const Part& part : parts_at_hand(call, query.size(1))) {
    if (is_one_sided(part)) {
      clear(all.query, part.queries);
      // Other ranks may have the queries that these keys serve.
      clear(all.key, part.keys);
      clear(all.value, part.keys);
      continue;
    }
    const std::int64_t count = statistics_of(part, query.size(2), call.method);
    const AttentionOutput one{
        rows_of(saved.out, part.queries),
        shaped_statistics(saved.statistics.narrow(0, first, count), part, query.size(2), call.method)};
    const AttentionGradients gradients =
        attention_backward(rows_of(dout, part.queries), rows_of(query, part.queries), rows_of(key, part.keys),
                           rows_of(value, part.keys), one, call_of(part, call));
    rows_of(all.query, part.queries).copy_(gradients.query);
    rows_of(all.key, part.keys).copy_(gradients.key);
    rows_of(all.value, part.keys).copy_(gradients.value);
    if (all.bias.defined()) pairs_of(all.bias, part).add_(gradients.bias);
    if (all.sinks.defined()) all.sinks.add_(gradients.sinks);
    first += count;
  }
  return all;
}

}  // namespace llmtrain::kernels
