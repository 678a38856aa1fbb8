// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/math_attention.h"

#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>

#include <limits>
#include <vector>

#include "kernels/accumulation_type.h"

namespace llmtrain::kernels {
namespace {

// [S_q, S]: −∞ where a key comes after its query, or before its window.
at::Tensor unseen(const AttentionCall& call, std::int64_t rows, const at::Tensor& scores) {
  std::vector<at::Tensor> pieces;
  // Row r of a run is at position run.begin + r and sees the keys up to it: a triangle that starts one column later.
  for (const PositionRun& run : call.queries.runs_of(rows)) {
    // triu_() writes zeros where it clears; a product with a matrix of 0 and 1 would make NaN of −∞.
    const at::Tensor all =
        at::full({run.length, scores.size(3)}, -std::numeric_limits<double>::infinity(), scores.options());
    pieces.push_back(at::triu(all, run.begin + 1));
    if (call.window) pieces.back().add_(at::tril(all, run.begin - *call.window));
  }
  return pieces.size() == 1 ? pieces.front() : at::cat(pieces);
}

// Scale, bias, mask and softmax run in fp32 at least; the result is in query's dtype.
at::Tensor probabilities_of(const at::Tensor& query, const at::Tensor& key, const AttentionCall& call) {
  // In 16 bits the scale, which is not always a power of two, would round the scores a second time.
  at::Tensor scores =
      at::matmul(query, key.transpose(2, 3)).to(accumulation_type(query)).mul_(call.scale_of(query.size(3)));
  if (call.bias.defined()) scores.add_(call.bias);
  if (call.is_causal) scores.add_(unseen(call, query.size(2), scores));
  if (!call.sinks.defined()) return at::_softmax(scores, 3, false).to(query.scalar_type());
  // As one more key, whose probability is left out.
  const at::Tensor sinks = call.sinks.to(scores.scalar_type()).view({1, -1, 1, 1});
  const at::Tensor all = at::cat({scores, sinks.expand({scores.size(0), -1, scores.size(2), 1})}, 3);
  return at::_softmax(all, 3, false).narrow(3, 0, scores.size(3)).to(query.scalar_type()).contiguous();
}

// [B, heads, S_q, S] as dropout's matrix: its rows are (sample, head, query) and its columns the keys.
at::Tensor score_rows(const at::Tensor& probabilities) { return probabilities.view({-1, probabilities.size(3)}); }

// In new memory: the softmax's gradient needs the probabilities as they were before dropout.
at::Tensor dropped(const at::Tensor& probabilities, const AttentionCall& call) {
  const RowsAtHand rows{call.queries, probabilities.size(2)};
  return dropped_rows(score_rows(probabilities), call.dropout, rows).view_as(probabilities);
}

// [heads]: −Σ p_sink·Σ p·dp, where p_sink is what the keys' probabilities leave of 1.
at::Tensor sink_gradient(const at::Tensor& dprobabilities, const at::Tensor& probabilities) {
  const auto type = accumulation_type(probabilities);
  const at::Tensor of_sink = at::sum(probabilities, {3}, false, type).neg_().add_(1);
  return at::sum(dprobabilities * probabilities, {3}, false, type).mul_(of_sink).sum(at::IntArrayRef{0, 2}).neg_();
}

}  // namespace

at::Tensor by_head(const at::Tensor& x) { return x.transpose(1, 2); }

at::Tensor share_heads(const at::Tensor& x, std::int64_t heads) {
  // Batched products need one matrix per query head, so the reshape copies.
  if (x.size(2) == heads) return by_head(x);
  const auto group = heads / x.size(2);
  return by_head(x.unsqueeze(3).expand({-1, -1, -1, group, -1}).reshape({x.size(0), x.size(1), heads, x.size(3)}));
}

at::Tensor sum_shared_heads(const at::Tensor& dx, std::int64_t kv_heads) {
  const at::Tensor gradient = by_head(dx);
  const auto heads = gradient.size(2);
  if (heads == kv_heads) return gradient;
  return gradient.reshape({gradient.size(0), gradient.size(1), kv_heads, heads / kv_heads, gradient.size(3)}).sum(3);
}

AttentionOutput math_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                       const AttentionCall& call) {
  const auto heads = query.size(2);
  const at::Tensor probabilities = probabilities_of(by_head(query), share_heads(key, heads), call);
  // The probabilities before dropout are returned: the backward regenerates the mask and needs both forms.
  const at::Tensor out = at::matmul(dropped(probabilities, call), share_heads(value, heads));
  return {by_head(out).contiguous(), probabilities};
}

AttentionGradients math_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                           const at::Tensor& value, const AttentionOutput& saved,
                                           const AttentionCall& call) {
  const auto heads = query.size(2);
  const at::Tensor gradient = by_head(dout);
  const at::Tensor dvalue = at::matmul(dropped(saved.statistics, call).transpose(2, 3), gradient);
  at::Tensor dprobabilities = at::matmul(gradient, share_heads(value, heads).transpose(2, 3));
  // The gradient of dropout is the same mask and factor, generated again from its key instead of being kept.
  at::Tensor rows = score_rows(dprobabilities);
  dropout_rows_(rows, call.dropout, {call.queries, dprobabilities.size(2)});
  // dscores = p·(dp − Σ p·dp); the bias was added to scaled scores.
  at::Tensor dscores = at::_softmax_backward_data(dprobabilities, saved.statistics, 3, query.scalar_type());
  const at::Tensor dbias = call.bias.defined() ? at::sum(dscores, {0}, false, accumulation_type(query)) : at::Tensor();
  dscores.mul_(call.scale_of(query.size(3)));
  const at::Tensor dsinks = call.sinks.defined() ? sink_gradient(dprobabilities, saved.statistics) : at::Tensor();
  const at::Tensor dquery = at::matmul(dscores, share_heads(key, heads));
  const at::Tensor dkey = at::matmul(dscores.transpose(2, 3), by_head(query));
  return {by_head(dquery), sum_shared_heads(dkey, key.size(2)), sum_shared_heads(dvalue, value.size(2)), dbias, dsinks};
}

}  // namespace llmtrain::kernels
