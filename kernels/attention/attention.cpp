// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/triu.h>

#include <limits>

#include "kernels/attention/flash_attention.h"
#include "kernels/attention/flash_attention_cuda.h"
#include "kernels/wide_type.h"

namespace llmtrain::kernels {
namespace {

// [B, S, heads, D] → [B, heads, S, D], no copy.
at::Tensor by_head(const at::Tensor& x) { return x.transpose(1, 2); }

// Repeats every key or value head for the query heads that share it: [B, S, kv, D] → [B, heads, S, D].
at::Tensor share_heads(const at::Tensor& x, std::int64_t heads) {
  // Batched products need one matrix per query head, so the reshape copies.
  if (x.size(2) == heads) return by_head(x);
  const auto group = heads / x.size(2);
  return by_head(x.unsqueeze(3).expand({-1, -1, -1, group, -1}).reshape({x.size(0), x.size(1), heads, x.size(3)}));
}

// The gradient of share_heads: sums over the query heads of each group; [B, heads, S, D] → [B, S, kv, D].
at::Tensor sum_shared_heads(const at::Tensor& dx, std::int64_t kv_heads) {
  const at::Tensor gradient = by_head(dx);
  const auto heads = gradient.size(2);
  if (heads == kv_heads) return gradient;
  return gradient.reshape({gradient.size(0), gradient.size(1), kv_heads, heads / kv_heads, gradient.size(3)}).sum(3);
}

// [S_q, S]: −∞ where a key comes after its query.
at::Tensor future(const SequencePart& queries, std::int64_t rows, const at::Tensor& scores) {
  std::vector<at::Tensor> pieces;
  // Row r of a run is at position run.begin + r and sees the keys up to it: a triangle that starts one column later.
  for (const PositionRun& run : queries.runs_of(rows)) {
    // triu_() writes zeros where it clears; a product with a matrix of 0 and 1 would make NaN of −∞.
    pieces.push_back(at::full({run.length, scores.size(3)}, -std::numeric_limits<double>::infinity(), scores.options())
                         .triu_(run.begin + 1));
  }
  return pieces.size() == 1 ? pieces.front() : at::cat(pieces);
}

// Scale, mask and softmax run in fp32 at least; the result is in query's dtype.
at::Tensor causal_probabilities(const at::Tensor& query, const at::Tensor& key, const SequencePart& queries) {
  // In 16 bits the scale, which is not always a power of two, would round the scores a second time.
  at::Tensor scores = at::matmul(query, key.transpose(2, 3)).to(wide_type(query)).mul_(attention_scale(query.size(3)));
  scores.add_(future(queries, query.size(2), scores));
  return at::_softmax(scores, 3, false).to(query.scalar_type());
}

// In place on [B, heads, S_q, S]. The rows of dropout's matrix are (sample, head, query) and its columns the keys.
void drop(at::Tensor& probabilities, const AttentionSetting& setting) {
  at::Tensor rows = probabilities.view({-1, probabilities.size(3)});
  dropout_rows_(rows, setting.dropout, {setting.queries, probabilities.size(2)});
}

at::Tensor dropped(const at::Tensor& probabilities, const AttentionSetting& setting) {
  // A copy under dropout: the softmax's gradient needs the probabilities as they were before it.
  if (!setting.dropout.active()) return probabilities;
  at::Tensor result = probabilities.clone();
  drop(result, setting);
  return result;
}

AttentionOutput math_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                             const AttentionSetting& setting) {
  const auto heads = query.size(2);
  const at::Tensor probabilities = causal_probabilities(by_head(query), share_heads(key, heads), setting.queries);
  // The probabilities before dropout are returned: the backward regenerates the mask and needs both forms.
  const at::Tensor out = at::matmul(dropped(probabilities, setting), share_heads(value, heads));
  return {by_head(out).contiguous(), probabilities};
}

AttentionGradients math_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value, const AttentionOutput& saved,
                                 const AttentionSetting& setting) {
  const auto heads = query.size(2);
  const at::Tensor gradient = by_head(dout);
  const at::Tensor dvalue = at::matmul(dropped(saved.statistics, setting).transpose(2, 3), gradient);
  at::Tensor dprobabilities = at::matmul(gradient, share_heads(value, heads).transpose(2, 3));
  // The gradient of dropout is the same mask and factor, generated again from its key instead of being kept.
  if (setting.dropout.active()) drop(dprobabilities, setting);
  // dscores = p·(dp − Σ p·dp), then the scale of the scores.
  const at::Tensor dscores = at::_softmax_backward_data(dprobabilities, saved.statistics, 3, query.scalar_type())
                                 .mul_(attention_scale(query.size(3)));
  const at::Tensor dquery = at::matmul(dscores, share_heads(key, heads));
  const at::Tensor dkey = at::matmul(dscores.transpose(2, 3), by_head(query));
  return {by_head(dquery), sum_shared_heads(dkey, key.size(2)), sum_shared_heads(dvalue, value.size(2))};
}

// LibTorch's kernels for the CPU do not support grouped queries, so each key and value head is repeated for its query
// heads.
AttentionOutput flash_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const SequencePart& queries) {
  if (has_cpu_flash_attention(query)) return cpu_flash_attention_forward(query, key, value, queries);
  if (has_cuda_flash_attention(query)) return cuda_flash_attention_forward(query, key, value, queries);
  const auto heads = query.size(2);
  const AttentionOutput output =
      library_flash_attention_forward(by_head(query), share_heads(key, heads), share_heads(value, heads), queries);
  return {by_head(output.out).contiguous(), output.statistics};
}

AttentionGradients flash_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const AttentionOutput& saved, const SequencePart& queries) {
  if (has_cpu_flash_attention(query)) return cpu_flash_attention_backward(dout, query, key, value, saved, queries);
  if (has_cuda_flash_attention(query)) return cuda_flash_attention_backward(dout, query, key, value, saved, queries);
  const auto heads = query.size(2);
  const AttentionOutput by_heads{by_head(saved.out), saved.statistics};
  const AttentionGradients d = library_flash_attention_backward(by_head(dout), by_head(query), share_heads(key, heads),
                                                                share_heads(value, heads), by_heads, queries);
  // The sums over runs and over the heads of a group stay wide and are rounded once, here.
  const auto type = query.scalar_type();
  return {by_head(d.query).to(type), sum_shared_heads(d.key, key.size(2)).to(type),
          sum_shared_heads(d.value, value.size(2)).to(type)};
}

at::Tensor narrow(const at::Tensor& x) { return x.to(at::kHalf); }

}  // namespace

AttentionOutput attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const AttentionSetting& setting) {
  if (is_widened(query)) {
    const AttentionOutput output = attention_forward(wide(query), wide(key), wide(value), setting);
    // Log-sum-exps are fp32 in every type; probabilities are kept in that of the query.
    const bool is_flash = setting.method == AttentionMethod::flash;
    return {narrow(output.out), is_flash ? output.statistics : narrow(output.statistics)};
  }
  return setting.method == AttentionMethod::flash ? flash_forward(query, key, value, setting.queries)
                                                  : math_forward(query, key, value, setting);
}

AttentionGradients attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, const AttentionOutput& saved,
                                      const AttentionSetting& setting) {
  if (is_widened(query)) {
    const AttentionGradients d = attention_backward(wide(dout), wide(query), wide(key), wide(value),
                                                    {wide(saved.out), wide(saved.statistics)}, setting);
    return {narrow(d.query), narrow(d.key), narrow(d.value)};
  }
  return setting.method == AttentionMethod::flash ? flash_backward(dout, query, key, value, saved, setting.queries)
                                                  : math_backward(dout, query, key, value, saved, setting);
}

}  // namespace llmtrain::kernels
