// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/document_attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/attention/flash_attention_cuda.h"
#include "kernels/host_copy.h"

namespace llmtrain::kernels {
namespace {

// A document, and those of its queries that are at hand.
struct Part {
  PositionRun keys;        // rows of [B·S, …]
  PositionRun queries;     // rows of [B·S_q, …]
  SequencePart positions;  // of the queries, in the document
};

// This rank has `tokens` of each sequence of `whole` tokens.
Part part_at_hand(const PositionRun& document, const SequencePart& queries, std::int64_t tokens, std::int64_t whole) {
  if (queries.is_whole()) return {document, document, {}};
  const std::int64_t sequence = document.begin / whole, begin = document.begin % whole;
  Part part{document, {}, {document.length, {}}};
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

std::vector<Part> parts_at_hand(const DocumentSetting& setting, std::int64_t tokens, std::int64_t whole) {
  std::vector<Part> parts;
  for (const PositionRun& document : setting.documents)
    parts.push_back(part_at_hand(document, setting.queries, tokens, whole));
  return parts;
}

// Rows of one sequence of [B, S, heads, D] as a sequence of their own, [1, length, heads, D]: a view, whatever the
// strides are.
at::Tensor rows_of(const at::Tensor& x, const PositionRun& rows) {
  const std::int64_t tokens = x.size(1);
  return x.narrow(0, rows.begin / tokens, 1).narrow(1, rows.begin % tokens, rows.length);
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

// One call takes all documents where each query's document is here as a whole.
bool is_one_call(const at::Tensor& query, const DocumentSetting& setting) {
  return setting.method == AttentionMethod::flash && setting.queries.is_whole() && has_cuda_flash_attention(query);
}

DocumentStarts starts_of(const DocumentSetting& setting, const at::Device& device) {
  DocumentStarts result{setting.starts.defined() ? setting.starts : document_starts(setting.documents, device), 0};
  for (const PositionRun& document : setting.documents) result.longest = std::max(result.longest, document.length);
  return result;
}

// Contiguous: at::empty_like() would keep the strides of a transposed x.
at::Tensor empty_like_heads(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

}  // namespace

at::Tensor document_starts(std::span<const PositionRun> documents, const at::Device& device) {
  if (device.is_cpu() || documents.empty()) return {};
  const auto count = static_cast<std::int64_t>(documents.size());
  const at::Tensor starts = at::empty({count + 1}, at::kInt);
  auto* const begin = starts.mutable_data_ptr<int>();
  for (std::size_t i = 0; i < documents.size(); ++i) begin[i] = static_cast<int>(documents[i].begin);
  begin[count] = static_cast<int>(documents.back().begin + documents.back().length);
  return to_device(starts, device);
}

AttentionOutput document_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                           const DocumentSetting& setting) {
  if (is_one_call(query, setting))
    return cuda_document_attention_forward(query, key, value, starts_of(setting, query.device()));
  AttentionOutput all{empty_like_heads(query), {}};
  std::vector<at::Tensor> statistics;
  for (const Part& part : parts_at_hand(setting, query.size(1), key.size(1))) {
    if (part.queries.length == 0) continue;
    const AttentionOutput one = attention_forward(rows_of(query, part.queries), rows_of(key, part.keys),
                                                  rows_of(value, part.keys), {setting.method, {}, part.positions});
    rows_of(all.out, part.queries).copy_(one.out);
    statistics.push_back(one.statistics.reshape({-1}));
  }
  all.statistics = at::cat(statistics);
  return all;
}

AttentionGradients document_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                               const at::Tensor& value, const AttentionOutput& saved,
                                               const DocumentSetting& setting) {
  if (is_one_call(query, setting))
    return cuda_document_attention_backward(dout, query, key, value, saved, starts_of(setting, query.device()));
  AttentionGradients all{empty_like_heads(query), empty_like_heads(key), empty_like_heads(value)};
  std::int64_t first = 0;
  for (const Part& part : parts_at_hand(setting, query.size(1), key.size(1))) {
    if (part.queries.length == 0) {
      // Other ranks have the queries that these keys serve.
      rows_of(all.key, part.keys).zero_();
      rows_of(all.value, part.keys).zero_();
      continue;
    }
    const std::int64_t count = statistics_of(part, query.size(2), setting.method);
    const AttentionOutput one{
        rows_of(saved.out, part.queries),
        shaped_statistics(saved.statistics.narrow(0, first, count), part, query.size(2), setting.method)};
    const AttentionGradients gradients =
        attention_backward(rows_of(dout, part.queries), rows_of(query, part.queries), rows_of(key, part.keys),
                           rows_of(value, part.keys), one, {setting.method, {}, part.positions});
    rows_of(all.query, part.queries).copy_(gradients.query);
    rows_of(all.key, part.keys).copy_(gradients.key);
    rows_of(all.value, part.keys).copy_(gradients.value);
    first += count;
  }
  return all;
}

}  // namespace llmtrain::kernels
