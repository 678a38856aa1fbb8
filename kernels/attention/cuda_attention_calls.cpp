// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cuda_attention_calls.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_cudnn_attention_backward.h>
#include <ATen/ops/_cudnn_attention_forward.h>
#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/constant_pad_nd.h>

#include <limits>
#include <mutex>
#include <optional>
#include <tuple>

#include "kernels/accumulation_type.h"
#include "kernels/attention/flash_attention.h"
#include "kernels/attention/math_attention.h"

namespace llmtrain::kernels {
namespace {

constexpr double no_dropout = 0;

// FlashAttention's backward adds to the gradients of queries in the order in which its blocks come to run, unless
// LibTorch as a whole is to be deterministic. That is said for this one call: elsewhere it would make operators throw
// that repeat as they are used here. The switch is the process's, so that other threads wait.
class DeterministicScope {
 public:
  DeterministicScope()
      : lock_(mutex()),
        was_deterministic_(at::globalContext().deterministicAlgorithms()),
        only_warned_(at::globalContext().deterministicAlgorithmsWarnOnly()),
        filled_(at::globalContext().deterministicFillUninitializedMemory()) {
    // Results are written whole; filling them first would be a pass over each.
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    at::globalContext().setDeterministicAlgorithms(true, false);
  }
  ~DeterministicScope() {
    at::globalContext().setDeterministicAlgorithms(was_deterministic_, only_warned_);
    at::globalContext().setDeterministicFillUninitializedMemory(filled_);
  }
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex instance;
    return instance;
  }
  std::lock_guard<std::mutex> lock_;
  bool was_deterministic_, only_warned_, filled_;
};

std::optional<at::Tensor> starts_of(const std::optional<DocumentStarts>& documents) {
  return documents ? std::optional(documents->starts) : std::nullopt;
}
std::int64_t longest(const std::optional<DocumentStarts>& documents, const at::Tensor& rows) {
  return documents ? documents->longest : rows.size(1);
}

// FlashAttention takes documents as ranges of [rows, heads, D]. A view where rows are evenly spaced.
at::Tensor flash_rows(const CudaAttentionCall& x, const at::Tensor& t) {
  return !x.queries ? t : t.reshape({-1, t.size(2), t.size(3)});
}

// CUTLASS's kernel takes them as ranges of [1, rows, heads, D], and as many heads of keys as of queries.
at::Tensor efficient_rows(const CudaAttentionCall& x, const at::Tensor& t) {
  return !x.queries ? t : t.reshape({1, -1, t.size(2), t.size(3)});
}
at::Tensor shared_heads(const at::Tensor& x, std::int64_t heads) {
  if (x.size(2) == heads) return x;
  const std::int64_t group = heads / x.size(2);
  return x.unsqueeze(3).expand({-1, -1, -1, group, -1}).reshape({x.size(0), x.size(1), heads, x.size(3)});
}
// The gradient of shared_heads, summed in fp32.
at::Tensor summed_heads(const at::Tensor& dx, const at::Tensor& like) {
  if (dx.numel() == like.numel()) return dx.view(like.sizes());
  const std::int64_t heads = like.size(2);
  return dx.view({like.size(0), like.size(1), heads, -1, like.size(3)}).sum(3);
}

// The values of LibTorch's sdp::CustomMaskType.
constexpr std::int64_t no_mask = 0, causal_from_bottom_right = 2;
std::int64_t mask_of(const CudaAttentionCall& x) { return x.is_causal ? causal_from_bottom_right : no_mask; }

// CUTLASS's kernel reads log-sum-exps in blocks of 32. Padding with +∞ makes exp(score − log-sum-exp) zero.
at::Tensor whole_blocks(const at::Tensor& log_sum_exp) {
  constexpr std::int64_t block = 32;
  const std::int64_t missing = (block - log_sum_exp.size(2) % block) % block;
  if (missing == 0) return log_sum_exp.contiguous();
  return at::constant_pad_nd(log_sum_exp, {0, missing}, std::numeric_limits<double>::infinity());
}

}  // namespace

bool has_flash(const at::Tensor& query) {
  constexpr std::int64_t longest_head = 256;
  return query.element_size() == 2 && query.size(3) <= longest_head;
}

AttentionOutput call_flash(const CudaAttentionCall& x) {
  const auto [out, log_sum_exp, random_state, unused, mask] = at::_flash_attention_forward(
      flash_rows(x, x.query), flash_rows(x, x.key), flash_rows(x, x.value), starts_of(x.queries), starts_of(x.keys),
      longest(x.queries, x.query), longest(x.keys, x.key), no_dropout, x.is_causal, false, x.scale);
  return {out.contiguous().view(x.query.sizes()), log_sum_exp};
}

AttentionGradients call_flash_backward(const at::Tensor& dout, const CudaAttentionCall& x,
                                       const AttentionOutput& saved) {
  const at::Tensor none, starts_q = x.queries ? x.queries->starts : none, starts_k = x.keys ? x.keys->starts : none;
  const DeterministicScope scope;
  const auto [query, key, value] = at::_flash_attention_backward(
      flash_rows(x, dout), flash_rows(x, x.query), flash_rows(x, x.key), flash_rows(x, x.value),
      flash_rows(x, saved.out), saved.statistics.contiguous(), starts_q, starts_k, longest(x.queries, x.query),
      longest(x.keys, x.key), no_dropout, x.is_causal, none, none, x.scale);
  return {query.view(x.query.sizes()), key.view(x.key.sizes()), value.view(x.value.sizes())};
}

AttentionOutput call_cudnn(const CudaAttentionCall& x) {
  const auto result = at::_cudnn_attention_forward(by_head(x.query), by_head(x.key), by_head(x.value), std::nullopt,
                                                   std::nullopt, std::nullopt, x.query.size(1), x.key.size(1), true,
                                                   no_dropout, x.is_causal, false, x.scale);
  return {by_head(std::get<0>(result)).contiguous(), std::get<1>(result).squeeze(3)};
}

AttentionGradients call_cudnn_backward(const at::Tensor& dout, const CudaAttentionCall& x,
                                       const AttentionOutput& saved) {
  const at::Tensor none;
  const auto [query, key, value] =
      at::_cudnn_attention_backward(by_head(dout), by_head(x.query), by_head(x.key), by_head(x.value),
                                    by_head(saved.out), saved.statistics.unsqueeze(3), none, none, none, none, none,
                                    x.query.size(1), x.key.size(1), no_dropout, x.is_causal, x.scale);
  return {by_head(query).contiguous(), by_head(key).contiguous(), by_head(value).contiguous()};
}

AttentionOutput call_efficient(const CudaAttentionCall& x) {
  const std::int64_t heads = x.query.size(2);
  const auto result = at::_efficient_attention_forward(
      efficient_rows(x, x.query), efficient_rows(x, shared_heads(x.key, heads)),
      efficient_rows(x, shared_heads(x.value, heads)), std::nullopt, starts_of(x.queries), starts_of(x.keys),
      longest(x.queries, x.query), longest(x.keys, x.key), no_dropout, mask_of(x), true, x.scale);
  const at::Tensor& log_sum_exp = std::get<1>(result);
  // Without documents only those of real queries are kept: their layout does not depend on the kernel.
  return {std::get<0>(result).view(x.query.sizes()),
          !x.queries ? log_sum_exp.narrow(2, 0, x.query.size(1)) : log_sum_exp};
}

AttentionGradients call_efficient_backward(const at::Tensor& dout, const CudaAttentionCall& x,
                                           const AttentionOutput& saved) {
  const std::int64_t heads = x.query.size(2);
  const at::Tensor no_random_state;
  // One split of the keys: with several, blocks that run side by side add to the gradients of queries.
  constexpr std::int64_t splits = 1;
  const auto [query, key, value, bias] = at::_efficient_attention_backward(
      efficient_rows(x, dout), efficient_rows(x, x.query), efficient_rows(x, shared_heads(x.key, heads)),
      efficient_rows(x, shared_heads(x.value, heads)), std::nullopt, efficient_rows(x, saved.out), starts_of(x.queries),
      starts_of(x.keys), longest(x.queries, x.query), longest(x.keys, x.key), whole_blocks(saved.statistics),
      no_dropout, no_random_state, no_random_state, mask_of(x), false, x.scale, splits);
  return {query.view(x.query.sizes()), summed_heads(key, x.key), summed_heads(value, x.value)};
}

}  // namespace llmtrain::kernels
