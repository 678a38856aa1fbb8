// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/triu.h>

#include <cmath>
#include <limits>

#include "kernels/flash_attention_cpu.h"

namespace llmtrain::kernels {
namespace {

double scale_of(const at::Tensor& query) { return 1.0 / std::sqrt(static_cast<double>(query.size(3))); }

// [B, S, heads, D] → [B, heads, S, D], no copy.
at::Tensor by_head(const at::Tensor& x) { return x.transpose(1, 2); }

// Repeats every key or value head for the query heads that share it: [B, S, kv, D] → [B, heads, S, D].
at::Tensor share_heads(const at::Tensor& x, std::int64_t heads) {
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

// Scores and softmax in fp32 at least; the result in x's dtype.
at::Tensor causal_probabilities(const at::Tensor& query, const at::Tensor& key, double scale) {
  const auto wide = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor scores = at::matmul(query, key.transpose(2, 3)).to(wide).mul_(scale);
  const auto sequence = query.size(2);
  const at::Tensor future =
      at::full({sequence, sequence}, -std::numeric_limits<double>::infinity(), scores.options()).triu_(1);
  return at::_softmax(scores.add_(future), 3, false).to(query.scalar_type());
}

at::Tensor dropped(const at::Tensor& probabilities, const Dropout& dropout) {
  if (!dropout.active()) return probabilities;
  at::Tensor result = probabilities.clone();
  dropout_(result, dropout);
  return result;
}

AttentionOutput math_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                             const Dropout& dropout) {
  const auto heads = query.size(2);
  const at::Tensor probabilities = causal_probabilities(by_head(query), share_heads(key, heads), scale_of(query));
  const at::Tensor out = at::matmul(dropped(probabilities, dropout), share_heads(value, heads));
  return {by_head(out).contiguous(), probabilities};
}

AttentionGradients math_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value, const AttentionOutput& saved, const Dropout& dropout) {
  const auto heads = query.size(2);
  const at::Tensor gradient = by_head(dout);
  const at::Tensor dvalue = at::matmul(dropped(saved.statistics, dropout).transpose(2, 3), gradient);
  at::Tensor dprobabilities = at::matmul(gradient, share_heads(value, heads).transpose(2, 3));
  if (dropout.active()) dropout_(dprobabilities, dropout);
  const at::Tensor dscores =
      at::_softmax_backward_data(dprobabilities, saved.statistics, 3, query.scalar_type()).mul_(scale_of(query));
  const at::Tensor dquery = at::matmul(dscores, share_heads(key, heads));
  const at::Tensor dkey = at::matmul(dscores.transpose(2, 3), by_head(query));
  return {by_head(dquery), sum_shared_heads(dkey, key.size(2)), sum_shared_heads(dvalue, value.size(2))};
}

AttentionOutput flash_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  if (has_cpu_flash_attention(query)) return cpu_flash_attention_forward(query, key, value);
  const auto heads = query.size(2);
  const at::Tensor q = by_head(query), k = share_heads(key, heads), v = share_heads(value, heads);
  if (query.is_cpu()) {
    const auto [out, log_sum_exp] =
        at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true, std::nullopt, scale_of(query));
    return {by_head(out).contiguous(), log_sum_exp};
  }
  const auto [out, log_sum_exp, seed, offset] =
      at::_scaled_dot_product_efficient_attention(q, k, v, std::nullopt, true, 0.0, true, scale_of(query));
  return {by_head(out).contiguous(), log_sum_exp};
}

AttentionGradients flash_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const AttentionOutput& saved) {
  if (has_cpu_flash_attention(query)) return cpu_flash_attention_backward(dout, query, key, value, saved);
  const auto heads = query.size(2);
  const at::Tensor q = by_head(query), k = share_heads(key, heads), v = share_heads(value, heads);
  const at::Tensor out = by_head(saved.out), gradient = by_head(dout);
  at::Tensor dq, dk, dv;
  if (query.is_cpu()) {
    std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, q, k, v, out, saved.statistics, 0.0, true, std::nullopt, scale_of(query));
  } else {
    const at::Tensor unused = at::empty({}, query.options().dtype(at::kLong));  // random state: there is no dropout
    at::Tensor dbias;
    std::tie(dq, dk, dv, dbias) = at::_scaled_dot_product_efficient_attention_backward(
        gradient, q, k, v, at::Tensor(), out, saved.statistics, unused, unused, 0.0, {true, true, true, false}, true,
        scale_of(query));
  }
  return {by_head(dq), sum_shared_heads(dk, key.size(2)), sum_shared_heads(dv, value.size(2))};
}

}  // namespace

AttentionOutput attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  AttentionMethod method, const Dropout& dropout) {
  return method == AttentionMethod::flash ? flash_forward(query, key, value) : math_forward(query, key, value, dropout);
}

AttentionGradients attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, const AttentionOutput& saved, AttentionMethod method,
                                      const Dropout& dropout) {
  return method == AttentionMethod::flash ? flash_backward(dout, query, key, value, saved)
                                          : math_backward(dout, query, key, value, saved, dropout);
}

}  // namespace llmtrain::kernels
