// SPDX-License-Identifier: Apache-2.0
// cuDNN's attention as CUDA has it (pytorch 2.11, aten/src/ATen/native/cudnn/MHA.cpp, and what
// can_use_cudnn_attention() of transformers/cuda/sdp_utils.cpp demands of a GPU of compute capability 8). Results lie
// as the queries do; gradients differ in their last bits from call to call.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "tests/emulator/torch/attention_reference.h"
#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

using Optional = std::optional<at::Tensor>;

bool is_given(const Optional& x) { return x && x->defined(); }

// [B, heads, S, D], as cuDNN's graph takes them; the reference takes [B, S, heads, D].
at::Tensor by_row(const at::Tensor& x) { return x.transpose(1, 2); }

void check_operands(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout) {
  constexpr std::int64_t longest_head = 128, most = 65535;
  TORCH_CHECK(dropout == 0, "cuDNN attention's dropout is not emulated");
  TORCH_CHECK(query.scalar_type() == at::kHalf || query.scalar_type() == at::kBFloat16,
              "cuDNN attention takes fp16 and bf16 alone");
  for (const at::Tensor* x : {&query, &key, &value}) {
    TORCH_CHECK(x->dim() == 4 && x->scalar_type() == query.scalar_type() && x->size(0) == query.size(0),
                "cuDNN attention takes 4 dimensions of one dtype and batch size, got ", x->sizes());
    TORCH_CHECK(x->size(3) <= longest_head, "head_dim should be no more than ", longest_head);
    TORCH_CHECK(x->size(3) % 8 == 0, "head_dim should be a multiple of 8");
    TORCH_CHECK(x->stride(3) == 1, "cuDNN attention: the last dimension must be contiguous");
  }
  TORCH_CHECK(key.sizes() == value.sizes() && key.size(3) == query.size(3), "cuDNN attention: shapes differ");
  TORCH_CHECK(query.size(0) <= most && query.size(1) <= most,
              "cuDNN SDPA does not support batch size or num_heads greater than ", most);
  TORCH_CHECK(query.size(1) % key.size(1) == 0, "Number of heads in key/value must divide number of heads in query");
  TORCH_CHECK(key.size(2) != 1, "cudnn SDPA does not support key/value sequence length 1.");
}

double scale_of(const at::Tensor& query, std::optional<double> scale) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
}

AttentionKind kind_of(bool is_causal, double scale) {
  return {is_causal ? Mask::from_top_left : Mask::none, scale, Rounding::probabilities};
}

Sequences sequences_of(const at::Tensor& query, const at::Tensor& key) {
  return batch_sequences(query.size(0), query.size(2), key.size(2));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
cudnn_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Optional& bias,
              const Optional& starts_q, const Optional& starts_k, c10::SymInt max_q, c10::SymInt max_k, bool with_sums,
              double dropout, bool is_causal, bool return_mask, std::optional<double> scale) {
  check_operands(query, key, value, dropout);
  TORCH_CHECK(!is_given(bias) && !is_given(starts_q) && !is_given(starts_k) && with_sums && !return_mask,
              "not emulated");
  at::Tensor out = at::empty_like(query);
  at::Tensor sums = at::empty({query.size(0), query.size(1), query.size(2), 1}, query.options().dtype(at::kFloat));
  on_stream("cuDNN attention", {query, key, value}, {out, sums},
            [kind = kind_of(is_causal, scale_of(query, scale))](const auto& in, const auto& to) {
              attend({by_row(in[0]), by_row(in[1]), by_row(in[2])}, sequences_of(in[0], in[1]), kind, by_row(to[0]),
                     Sums::by_sequence(to[1].squeeze(3)));
            });
  const auto words = query.options().dtype(at::kLong);
  return {out, sums, {}, {}, max_q, max_k, at::empty({}, words), at::empty({}, words), {}};
}

// The sums of gradients of queries, those of dout times out, and the gradients of grouped keys and values by query head
// (cudnn-frontend, node/scaled_dot_product_flash_attention.h). Released before the call returns, as on CUDA.
void allocate_workspace(const at::Tensor& query, const at::Tensor& key) {
  const auto fp32 = query.options().dtype(at::kFloat);
  const at::Tensor dquery = at::empty(query.sizes(), fp32), sums = at::empty({query.numel() / query.size(3)}, fp32);
  if (key.size(1) == query.size(1)) return;
  const std::vector<std::int64_t> by_head{key.size(0), query.size(1), key.size(2), key.size(3)};
  const at::Tensor dkey = at::empty(by_head, key.options()), dvalue = at::empty(by_head, key.options());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cudnn_backward(
    const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& sums, const at::Tensor&, const at::Tensor&, const at::Tensor& bias,
    const at::Tensor& starts_q, const at::Tensor& starts_k, c10::SymInt, c10::SymInt, double dropout, bool is_causal,
    std::optional<double> scale) {
  check_operands(query, key, value, dropout);
  TORCH_CHECK(!bias.defined() && !starts_q.defined() && !starts_k.defined(), "not emulated");
  TORCH_CHECK(dout.sizes() == query.sizes() && out.sizes() == query.sizes(), "dout and out must be shaped as query");
  TORCH_CHECK(dout.scalar_type() == query.scalar_type() && out.scalar_type() == query.scalar_type(),
              "dout and out must have query's dtype");
  TORCH_CHECK(sums.scalar_type() == at::kFloat && sums.dim() == 4 && sums.numel() == query.numel() / query.size(3),
              "log-sum-exps are [B, heads, S, 1] in fp32");
  allocate_workspace(query, key);
  at::Tensor dq = at::empty_like(query), dk = at::empty_like(key), dv = at::empty_like(value);
  on_stream("cuDNN attention's backward", {query, key, value, dout, out, sums}, {dq, dk, dv},
            [kind = kind_of(is_causal, scale_of(query, scale))](const auto& in, const auto& to) {
              attend_backward({by_row(in[0]), by_row(in[1]), by_row(in[2])},
                              {by_row(in[3]), by_row(in[4]), Sums::by_sequence(in[5].squeeze(3))},
                              sequences_of(in[0], in[1]), kind, {by_row(to[0]), by_row(to[1]), by_row(to[2])});
              disturb(to[0]);
            });
  return {dq, dk, dv};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_cudnn_attention_forward", cudnn_forward);
  m.impl("_cudnn_attention_backward", cudnn_backward);
}

}  // namespace emulated
