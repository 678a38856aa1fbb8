// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_attention_cuda.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/accumulation_type.h"
#include "kernels/attention/cuda_attention_calls.h"

namespace llmtrain::kernels {
namespace {

// Both kernels read whole words of 16 bytes.
std::int64_t missing_elements(const at::Tensor& x) {
  const std::int64_t word = 16 / x.element_size();
  return (word - x.size(3) % word) % word;
}

// Zeros change neither products of queries and keys nor the elements of the output before them.
at::Tensor padded_heads(const at::Tensor& x) {
  const std::int64_t missing = missing_elements(x);
  return missing == 0 ? x : at::constant_pad_nd(x, {0, missing});
}

at::Tensor without_padding(const at::Tensor& x, std::int64_t head_dim) {
  return x.size(3) == head_dim ? x : x.narrow(3, 0, head_dim).contiguous();
}

// The operands of one call.
struct Operands {
  at::Tensor query, key, value;
};

// cuDNN has no sequences of one key, to which FlashAttention attends as well.
bool goes_to_cudnn(const Operands& x, const AttentionCall& call) { return call.by_cudnn && x.key.size(1) > 1; }

CudaAttentionCall make_call(const Operands& x, const AttentionCall& call) {
  return {padded_heads(x.query),
          padded_heads(x.key),
          padded_heads(x.value),
          x.query.size(3),
          call.scale_of(x.query.size(3)),
          call.is_causal,
          {},
          {},
          goes_to_cudnn(x, call)};
}

DocumentStarts starts_of(const RowDocuments& documents, const at::Device& device) {
  DocumentStarts result{documents.starts.defined() ? documents.starts : document_starts(documents.runs, device), 0};
  for (const PositionRun& document : documents.runs) result.longest = std::max(result.longest, document.length);
  return result;
}

// The call that needs no other beside it.
CudaAttentionCall make_only_call(const Operands& x, const AttentionCall& call) {
  CudaAttentionCall result = make_call(x, call);
  if (call.documents.runs.empty()) return result;
  result.queries = starts_of(call.documents, x.query.device());
  result.keys = call.key_documents.runs.empty() ? result.queries : starts_of(call.key_documents, x.query.device());
  return result;
}

// Positions matter to a causal mask alone.
bool is_one_call(const AttentionCall& call) { return call.queries.is_whole() || !call.is_causal; }

DocumentPieces pieces_at_hand(const at::Tensor& query, const AttentionCall& call) {
  if (call.documents.pieces != nullptr) return *call.documents.pieces;
  return document_pieces(call.documents.runs, call.queries, query.size(1), query.device());
}

CudaAttentionCall make_call_of_pieces(const Operands& x, const DocumentPieces& pieces, const AttentionCall& call) {
  CudaAttentionCall result = make_call({x.query, keys_of(pieces, x.key), keys_of(pieces, x.value)}, call);
  result.queries = DocumentStarts{pieces.query_starts, pieces.most_queries};
  result.keys = DocumentStarts{pieces.key_starts, pieces.most_keys};
  return result;
}

AttentionOutput run_kernel(const CudaAttentionCall& call) {
  if (call.by_cudnn) return call_cudnn(call);
  return has_flash(call.query) ? call_flash(call) : call_efficient(call);
}

AttentionGradients run_backward_kernel(const at::Tensor& dout, const CudaAttentionCall& call,
                                       const AttentionOutput& saved) {
  if (call.by_cudnn) return call_cudnn_backward(dout, call, saved);
  return has_flash(call.query) ? call_flash_backward(dout, call, saved) : call_efficient_backward(dout, call, saved);
}

AttentionOutput attend(const CudaAttentionCall& call) {
  AttentionOutput output = run_kernel(call);
  output.out = without_padding(output.out, call.head_dim);
  return output;
}

AttentionGradients attend_backward(const at::Tensor& dout, const CudaAttentionCall& call,
                                   const AttentionOutput& saved) {
  const AttentionOutput padded{padded_heads(saved.out), saved.statistics};
  const AttentionGradients d = run_backward_kernel(padded_heads(dout), call, padded);
  return {without_padding(d.query, call.head_dim), without_padding(d.key, call.head_dim),
          without_padding(d.value, call.head_dim)};
}

// The keys that the queries of a run see: those up to its end. The causal mask of both kernels ends at the last query
// and the last key, so that one call is enough.
at::Tensor keys_until(const at::Tensor& x, const PositionRun& run) { return x.narrow(1, 0, run.begin + run.length); }

}  // namespace

bool has_cuda_flash_attention(const at::Tensor& query) { return query.is_cuda() && query.scalar_type() != at::kDouble; }

bool cuda_takes_documents(const at::Tensor& query, const AttentionCall& call) {
  // Each piece has keys.
  if (!call.queries.is_whole()) return call.is_causal;
  if (has_flash(query)) return true;
  const std::span<const PositionRun> queries = call.documents.runs, keys = call.documents_of_keys().runs;
  for (std::size_t i = 0; i < queries.size(); ++i)
    if (queries[i].length > 0 && keys[i].length == 0) return false;
  return true;
}

AttentionOutput cuda_flash_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                             const AttentionCall& call) {
  if (is_one_call(call)) return attend(make_only_call({query, key, value}, call));
  if (!call.documents.runs.empty())
    return attend(make_call_of_pieces({query, key, value}, pieces_at_hand(query, call), call));
  std::vector<at::Tensor> outs, statistics;
  std::int64_t row = 0;
  for (const PositionRun& run : call.queries.runs_of(query.size(1))) {
    const AttentionOutput part =
        attend(make_call({query.narrow(1, row, run.length), keys_until(key, run), keys_until(value, run)}, call));
    outs.push_back(part.out);
    statistics.push_back(part.statistics);
    row += run.length;
  }
  if (outs.size() == 1) return {outs.front(), statistics.front()};
  return {at::cat(outs, 1), at::cat(statistics, 2)};
}

AttentionGradients cuda_flash_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const AttentionOutput& saved,
                                                 const AttentionCall& call) {
  if (is_one_call(call)) return attend_backward(dout, make_only_call({query, key, value}, call), saved);
  if (!call.documents.runs.empty()) {
    const DocumentPieces pieces = pieces_at_hand(query, call);
    const AttentionGradients d = attend_backward(dout, make_call_of_pieces({query, key, value}, pieces, call), saved);
    return {d.query, sum_key_gradients(pieces, d.key, key), sum_key_gradients(pieces, d.value, value)};
  }
  // Keys and values collect contributions from every run, in fp32, so that the sums are rounded once.
  const auto sum_of = [](const at::Tensor& x) { return at::zeros(x.sizes(), x.options().dtype(accumulation_type(x))); };
  const at::Tensor dkey = sum_of(key), dvalue = sum_of(value);
  std::vector<at::Tensor> dqueries;
  std::int64_t row = 0;
  for (const PositionRun& run : call.queries.runs_of(query.size(1))) {
    const auto rows = [&](const at::Tensor& x) { return x.narrow(1, row, run.length); };
    const AttentionGradients part =
        attend_backward(rows(dout), make_call({rows(query), keys_until(key, run), keys_until(value, run)}, call),
                        {rows(saved.out).contiguous(), saved.statistics.narrow(2, row, run.length)});
    dqueries.push_back(part.query);
    keys_until(dkey, run).add_(part.key);
    keys_until(dvalue, run).add_(part.value);
    row += run.length;
  }
  return {at::cat(dqueries, 1), dkey.to(key.scalar_type()), dvalue.to(value.scalar_type())};
}

}  // namespace llmtrain::kernels
