// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/sigmoid.h>

#include <string>

#include "core/base/error.h"
#include "kernels/accumulation_type.h"
#include "kernels/attention/document_attention.h"
#include "kernels/attention/flash_attention.h"
#include "kernels/attention/flash_attention_cuda.h"
#include "kernels/attention/math_attention.h"
#include "kernels/attention/separate_attention.h"
#include "kernels/separate_rows.h"

namespace llmtrain::kernels {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw Error(ExitCode::internal_error, "attention: " + reason); }

void check_rows(const at::Tensor& query, const at::Tensor& key, const AttentionCall& call) {
  const std::int64_t queries = call.queries.whole_of(query.size(1)), keys = key.size(1);
  const std::size_t of_queries = call.documents.runs.size(), of_keys = call.key_documents.runs.size();
  if (call.is_causal && of_keys > 0)
    refuse("keys of other rows, which have documents of their own, have no positions that a causal mask could read");
  if (call.is_causal && queries != keys)
    refuse("a causal mask needs the keys of the queries' own sequences, of " + std::to_string(queries) +
           " positions, not " + std::to_string(keys));
  if (of_keys > 0 && of_keys != of_queries)
    refuse(std::to_string(of_queries) + " documents of queries cannot be told which of " + std::to_string(of_keys) +
           " documents of keys they see");
}

void check(const at::Tensor& query, const at::Tensor& key, const AttentionCall& call) {
  check_rows(query, key, call);
  const bool is_flash = call.method == AttentionMethod::flash;
  if (is_flash && call.bias.defined())
    refuse("flash attention holds no scores that a bias per head could be added to; the math path does");
  if (is_flash && call.dropout.active())
    refuse("flash attention holds no probabilities that could be dropped; the math path does");
  if (call.by_cudnn && (!is_flash || !query.is_cuda() || query.element_size() != 2))
    refuse("cuDNN's is flash attention, on GPUs, in 16 bits");
  if (call.by_cudnn && (!call.queries.is_whole() || !call.documents.runs.empty()))
    refuse("cuDNN's is of whole sequences, without documents");
  if (call.by_cudnn && query.size(3) > longest_cudnn_head) refuse("cuDNN's has no longer heads");
  if (call.dropout.active() && !call.documents.runs.empty())
    refuse("dropout is placed by the pairs of a sequence's tokens, which attention within documents does not hold");
  if (call.window && !call.is_causal) refuse("a window is of causal attention");
  if (call.window && is_flash && !query.is_cpu()) refuse("flash attention on GPUs has no windows; the math path does");
  if (call.sinks.defined() && is_flash && !query.is_cpu() && !call.documents.runs.empty())
    refuse("flash attention of documents on GPUs has no sinks");
  if (call.bias.defined() && call.bias.sizes() != at::IntArrayRef{query.size(2), query.size(1), key.size(1)})
    refuse("a bias is [heads, queries, keys]");
}

// LibTorch's kernels for the CPU do not support grouped queries, so each key and value head is repeated for its query
// heads.
AttentionOutput flash_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const AttentionCall& call) {
  if (has_cpu_flash_attention(query)) return cpu_flash_attention_forward(query, key, value, call);
  if (has_cuda_flash_attention(query)) return cuda_flash_attention_forward(query, key, value, call);
  const auto heads = query.size(2);
  const AttentionOutput output =
      library_flash_attention_forward(by_head(query), share_heads(key, heads), share_heads(value, heads), call);
  return {by_head(output.out).contiguous(), output.statistics};
}

AttentionGradients flash_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const AttentionOutput& saved, const AttentionCall& call) {
  if (has_cpu_flash_attention(query)) return cpu_flash_attention_backward(dout, query, key, value, saved, call);
  if (has_cuda_flash_attention(query)) return cuda_flash_attention_backward(dout, query, key, value, saved, call);
  const auto heads = query.size(2);
  const AttentionOutput by_heads{by_head(saved.out), saved.statistics};
  const AttentionGradients d = library_flash_attention_backward(by_head(dout), by_head(query), share_heads(key, heads),
                                                                share_heads(value, heads), by_heads, call);
  // The sums over runs and over the heads of a group stay in the type of sums and are rounded once, here.
  const auto type = query.scalar_type();
  return {by_head(d.query).to(type), sum_shared_heads(d.key, key.size(2)).to(type),
          sum_shared_heads(d.value, value.size(2)).to(type)};
}

// The output and its log-sum-exp with sinks in the softmax, in place. Their share of each query's sum leaves the rest
// of it to the values: backward passes need nothing else, as what a sink takes has no value.
void add_sinks(const at::Tensor& sinks, AttentionOutput& output) {
  const at::Tensor of_heads = sinks.to(output.statistics.scalar_type()).view({1, -1, 1});
  const at::Tensor kept = at::sigmoid(output.statistics - of_heads);
  output.out.mul_(kept.transpose(1, 2).unsqueeze(3));
  output.statistics = at::logaddexp(output.statistics, of_heads);
}

// [heads]: −Σ p_sink·Σ dout·out, since Σ p·dp of a query equals Σ dout·out (arXiv 2205.14135, appendix B.2).
at::Tensor sink_gradient(const at::Tensor& dout, const AttentionOutput& saved, const at::Tensor& sinks) {
  const auto type = accumulation_type(saved.out);
  const at::Tensor shares = (sinks.to(type).view({1, -1, 1}) - saved.statistics.to(type)).exp_();
  return (dout.to(type) * saved.out.to(type)).sum(3).transpose(1, 2).mul(shares).sum(at::IntArrayRef{0, 2}).neg_();
}

at::Tensor narrow(const at::Tensor& x) { return x.to(at::kHalf); }

// Without documents.
AttentionOutput forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const AttentionCall& call) {
  const bool is_flash = call.method == AttentionMethod::flash;
  if (is_widened(query)) {
    const AttentionOutput output = forward(widened(query), widened(key), widened(value), call);
    // Log-sum-exps are fp32 in every type; probabilities are kept in that of the query.
    return {narrow(output.out), is_flash ? output.statistics : narrow(output.statistics)};
  }
  if (separates_rows() && has_separate_attention(query, value, call))
    return separate_attention_forward(query, key, value, call);
  if (!is_flash) return math_attention_forward(query, key, value, call);
  AttentionOutput output = flash_forward(query, key, value, call);
  if (call.sinks.defined()) add_sinks(call.sinks, output);
  return output;
}

AttentionGradients backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const AttentionOutput& saved, const AttentionCall& call) {
  if (is_widened(query)) {
    const AttentionGradients d = backward(widened(dout), widened(query), widened(key), widened(value),
                                          {widened(saved.out), widened(saved.statistics)}, call);
    return {narrow(d.query), narrow(d.key), narrow(d.value), d.bias, d.sinks};
  }
  if (call.method == AttentionMethod::math) return math_attention_backward(dout, query, key, value, saved, call);
  AttentionGradients gradients = flash_backward(dout, query, key, value, saved, call);
  if (call.sinks.defined()) gradients.sinks = sink_gradient(dout, saved, call.sinks);
  return gradients;
}

}  // namespace

AttentionOutput attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const AttentionCall& call) {
  check(query, key, call);
  return call.documents.runs.empty() ? forward(query, key, value, call)
                                     : document_attention_forward(query, key, value, call);
}

AttentionGradients attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, const AttentionOutput& saved,
                                      const AttentionCall& call) {
  check(query, key, call);
  return call.documents.runs.empty() ? backward(dout, query, key, value, saved, call)
                                     : document_attention_backward(dout, query, key, value, saved, call);
}

}  // namespace llmtrain::kernels
