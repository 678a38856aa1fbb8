// SPDX-License-Identifier: Apache-2.0
// CUDA's attention operators, with what their kernels demand and return (pytorch 2.11,
// aten/src/ATen/native/transformers /cuda: attention.cu, attention_backward.cu, flash_attn/flash_api.cpp). What a
// kernel would read without a check, such as unaligned rows or a number of queries below the longest sequence, is an
// error here. Their working memory is allocated as there, for the multiprocessors of an H100. Backwards that sum in the
// order of the device's schedule unless they are asked not to differ in the last bits from call to call.
#include "tests/emulator/torch/attention_reference.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <optional>

#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

using Optional = std::optional<at::Tensor>;
constexpr std::int64_t multiprocessors = 132;

std::int64_t rounded_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}
bool is_given(const Optional& x) { return x && x->defined(); }

// Kernels read `bytes` at once.
void check_aligned(const at::Tensor& x, std::int64_t bytes, const char* name) {
  TORCH_CHECK(x.stride(-1) == 1, name, ": the last dimension must be contiguous");
  const std::int64_t elements = bytes / x.element_size();
  TORCH_CHECK(reinterpret_cast<std::uintptr_t>(x.data_ptr()) % static_cast<std::uintptr_t>(bytes) == 0, name,
              ": not aligned to ", bytes, " bytes");
  for (std::int64_t d = 0; d + 1 < x.dim(); ++d)
    TORCH_CHECK(x.size(d) == 1 || x.stride(d) % elements == 0, name, ": stride ", x.stride(d), " of dimension ", d,
                " is no multiple of ", elements);
}

void check_starts(const at::Tensor& starts, const at::Tensor& like) {
  TORCH_CHECK(starts.device() == like.device(), "cumulative lengths must be on the device");
  TORCH_CHECK(starts.scalar_type() == at::kInt, "cumulative lengths must have dtype int32");
  TORCH_CHECK(starts.dim() == 1 && starts.is_contiguous() && starts.size(0) > 1,
              "cumulative lengths must be one contiguous dimension of at least 2");
}

// Set by a stream's thread only.
void check_lengths(const at::Tensor& starts, std::int64_t total, std::int64_t longest, const char* name) {
  const auto* const begin = starts.const_data_ptr<int>();
  const std::int64_t count = starts.numel() - 1;
  TORCH_CHECK(begin[0] == 0 && begin[count] == total, name, ": the sequences do not cover the rows");
  for (std::int64_t i = 0; i < count; ++i)
    TORCH_CHECK(begin[i] <= begin[i + 1] && begin[i + 1] - begin[i] <= longest, name, ": sequence ", i, " of ",
                begin[i + 1] - begin[i], " rows is longer than said, ", longest);
}

// CUTLASS's kernel writes results as it goes over keys: of queries without any it leaves what the memory held.
void check_keys(const Sequences& all) {
  for (const Sequence& x : all)
    TORCH_CHECK(x.queries.length == 0 || x.keys.length > 0, "efficient attention writes nothing for ", x.queries.length,
                " queries without keys");
}

// Each sequence of a call: batch entries of [B, S, ·, ·], or ranges of the rows of [total, ·, ·].
Sequences sequences_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& starts_q,
                       const at::Tensor& starts_k, std::int64_t longest_q, std::int64_t longest_k) {
  if (!starts_q.defined()) return batch_sequences(query.size(0), query.size(1), key.size(1));
  check_lengths(starts_q, query.size(-3), longest_q, "queries");
  check_lengths(starts_k, key.size(-3), longest_k, "keys");
  return ranges(starts_q, starts_k);
}

// --- flash attention ----------------------------------------------------------------------------------------------

struct FlashArguments {
  const at::Tensor &query, &key, &value;
  Optional starts_q, starts_k;
  std::int64_t longest_q, longest_k;
  double dropout;

  bool is_varying() const { return is_given(starts_q); }
  std::int64_t batch() const { return is_varying() ? starts_q->size(0) - 1 : query.size(0); }
};

void check_flash(const FlashArguments& x) {
  TORCH_CHECK(x.dropout == 0, "flash attention's dropout is not emulated");
  TORCH_CHECK(x.query.scalar_type() == at::kHalf || x.query.scalar_type() == at::kBFloat16,
              "FlashAttention only support fp16 and bf16 data type");
  for (const at::Tensor* t : {&x.key, &x.value})
    TORCH_CHECK(t->scalar_type() == x.query.scalar_type(), "query, key and value must have the same dtype");
  TORCH_CHECK(is_given(x.starts_q) == is_given(x.starts_k), "cumulative lengths must be given for both or neither");
  const std::int64_t dimensions = x.is_varying() ? 3 : 4, head = x.query.size(-1);
  for (const at::Tensor* t : {&x.query, &x.key, &x.value})
    TORCH_CHECK(t->dim() == dimensions && t->size(-1) == head, "flash attention: wrong shape ", t->sizes());
  TORCH_CHECK(x.key.sizes() == x.value.sizes(), "keys and values must have one shape");
  TORCH_CHECK(head % 8 == 0, "head_size must be a multiple of 8, this is ensured by padding!");
  TORCH_CHECK(head <= 256, "FlashAttention forward only supports head dimension at most 256");
  TORCH_CHECK(x.query.size(-2) % x.key.size(-2) == 0,
              "Number of heads in key/value must divide number of heads in query");
  check_aligned(x.query, 16, "query");
  check_aligned(x.key, 16, "key");
  check_aligned(x.value, 16, "value");
  if (!x.is_varying()) {
    TORCH_CHECK(x.query.size(0) == x.key.size(0), "query and key must have one batch size");
    return;
  }
  check_starts(*x.starts_q, x.query);
  check_starts(*x.starts_k, x.query);
  TORCH_CHECK(x.starts_q->size(0) == x.starts_k->size(0), "as many sequences of queries as of keys");
}

Mask flash_mask(bool causal) { return causal ? Mask::from_bottom_right : Mask::none; }

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> flash_forward(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Optional& starts_q,
    const Optional& starts_k, c10::SymInt max_q, c10::SymInt max_k, double dropout, bool is_causal, bool return_mask,
    std::optional<double> scale, std::optional<c10::SymInt> window_left, std::optional<c10::SymInt> window_right,
    const Optional& used, const Optional& slopes) {
  const FlashArguments x{query, key, value, starts_q, starts_k, max_q.expect_int(), max_k.expect_int(), dropout};
  check_flash(x);
  TORCH_CHECK(!return_mask && !window_left && !window_right && !is_given(used) && !is_given(slopes), "not emulated");
  const auto fp32 = query.options().dtype(at::kFloat);
  at::Tensor out = at::empty(query.sizes(), query.options());
  at::Tensor sums = x.is_varying() ? at::empty({query.size(1), query.size(0)}, fp32)
                                   : at::empty({query.size(0), query.size(2), query.size(1)}, fp32);
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  std::vector<at::Tensor> inputs{query, key, value};
  if (x.is_varying()) inputs.insert(inputs.end(), {*starts_q, *starts_k});
  on_stream("flash attention", inputs, {out, sums},
            [factor, is_causal, longest_q = x.longest_q, longest_k = x.longest_k](const auto& in, const auto& to) {
              const bool varying = in.size() > 3;
              const Sequences all = sequences_of(in[0], in[1], varying ? in[3] : at::Tensor(),
                                                 varying ? in[4] : at::Tensor(), longest_q, longest_k);
              attend({in[0], in[1], in[2]}, all, {flash_mask(is_causal), factor, Rounding::probabilities}, to[0],
                     varying ? Sums::by_row(to[1]) : Sums::by_sequence(to[1]));
            });
  const auto words = query.options().dtype(at::kUInt64);
  return {out, sums, at::empty({2}, words), at::empty({}, words), at::empty({0}, query.options())};
}

// What the kernel accumulates in, and the gradients of keys and values by query head. Released before the call returns,
// as on CUDA: its stream alone uses it.
void allocate_flash_workspace(const FlashArguments& x, bool deterministic) {
  const auto fp32 = x.query.options().dtype(at::kFloat);
  const std::int64_t heads = x.query.size(-2), head = x.query.size(-1);
  const std::int64_t wide_head = rounded_up(head, head <= 128 ? 32 : 64);
  const std::int64_t splits = deterministic ? rounded_up(multiprocessors, x.batch() * heads) / (x.batch() * heads) : 1;
  const std::int64_t rows =
      x.is_varying() ? x.query.size(0) + 128 * x.batch() : x.batch() * rounded_up(x.query.size(1), 128);
  const at::Tensor delta = at::empty({heads, rows}, fp32), sum = at::empty({splits, rows, heads, wide_head}, fp32);
  if (x.key.size(-2) == heads) return;
  const std::vector<std::int64_t> expanded{x.key.numel() / x.key.size(-2) * heads};
  const at::Tensor dkey = at::empty(expanded, x.query.options()), dvalue = at::empty(expanded, x.query.options());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(
    const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& sums, const at::Tensor& starts_q, const at::Tensor& starts_k,
    c10::SymInt max_q, c10::SymInt max_k, double dropout, bool is_causal, const at::Tensor&, const at::Tensor&,
    std::optional<double> scale, std::optional<c10::SymInt>, std::optional<c10::SymInt>) {
  const FlashArguments x{query, key, value, starts_q, starts_k, max_q.expect_int(), max_k.expect_int(), dropout};
  check_flash(x);
  TORCH_CHECK(dout.sizes() == query.sizes() && out.sizes() == query.sizes(), "dout and out must be shaped as query");
  TORCH_CHECK(dout.scalar_type() == query.scalar_type() && out.scalar_type() == query.scalar_type(),
              "dout and out must have query's dtype");
  TORCH_CHECK(sums.is_contiguous() && sums.numel() == query.numel() / query.size(-1),
              "log-sum-exps must be contiguous");
  const at::Tensor dense_dout = dout.contiguous(), dense_out = out.contiguous();
  at::Tensor dq = at::empty(query.sizes(), query.options()), dk = at::empty(key.sizes(), key.options()),
             dv = at::empty(value.sizes(), value.options());
  const bool deterministic = at::globalContext().deterministicAlgorithms();
  allocate_flash_workspace(x, deterministic);
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  std::vector<at::Tensor> inputs{query, key, value, dense_dout, dense_out, sums};
  if (x.is_varying()) inputs.insert(inputs.end(), {starts_q, starts_k});
  on_stream("flash attention's backward", inputs, {dq, dk, dv},
            [=, longest_q = x.longest_q, longest_k = x.longest_k](const auto& in, const auto& to) {
              const bool varying = in.size() > 6;
              const Sequences all = sequences_of(in[0], in[1], varying ? in[6] : at::Tensor(),
                                                 varying ? in[7] : at::Tensor(), longest_q, longest_k);
              attend_backward({in[0], in[1], in[2]},
                              {in[3], in[4], varying ? Sums::by_row(in[5]) : Sums::by_sequence(in[5])}, all,
                              {flash_mask(is_causal), factor, Rounding::probabilities}, {to[0], to[1], to[2]});
              if (!deterministic) disturb(to[0]);
            });
  return {dq, dk, dv};
}

// --- "memory-efficient" attention ---------------------------------------------------------------------------------

Mask efficient_mask(std::int64_t type) {
  TORCH_CHECK(type >= 0 && type <= 2, "custom_mask_type must be 0, 1 or 2");
  return static_cast<Mask>(type);
}

struct EfficientArguments {
  const at::Tensor &query, &key, &value;
  Optional starts_q, starts_k;
  std::int64_t longest_q, longest_k;  // 0: not given
  double dropout;

  bool is_varying() const { return is_given(starts_q); }
};

void check_efficient(const EfficientArguments& x) {
  TORCH_CHECK(x.dropout == 0, "efficient attention's dropout is not emulated");
  for (const at::Tensor* t : {&x.query, &x.key, &x.value}) {
    TORCH_CHECK(t->dim() == 4 && t->size(0) == x.query.size(0) && t->scalar_type() == x.query.scalar_type(),
                "efficient attention takes 4 dimensions of one dtype and batch size, got ", t->sizes());
    TORCH_CHECK(t->size(2) == x.query.size(2), "efficient attention: as many heads of keys and values as of queries");
  }
  TORCH_CHECK(x.key.size(1) == x.value.size(1) && x.key.size(3) == x.query.size(3),
              "efficient attention: shapes differ");
  const at::ScalarType type = x.query.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, "efficient attention has no ", type);
  // Below four elements cutlassF finds no kernel.
  const std::int64_t bytes = 4 * x.query.element_size();
  check_aligned(x.query, bytes, "query");
  check_aligned(x.key, bytes, "key");
  check_aligned(x.value, bytes, "value");
  TORCH_CHECK(is_given(x.starts_q) == is_given(x.starts_k), "cumulative lengths must be given for both or neither");
  if (!x.is_varying()) return;
  check_starts(*x.starts_q, x.query);
  check_starts(*x.starts_k, x.query);
  TORCH_CHECK(x.starts_q->size(0) == x.starts_k->size(0), "as many sequences of queries as of keys");
  TORCH_CHECK(x.query.size(0) == 1, "cu_seqlen only supports batch_size=1");
  TORCH_CHECK(x.longest_q > 0 && x.longest_q <= x.query.size(1), "max_seqlen_q required with `cu_seqlens_q`");
  TORCH_CHECK(x.longest_k > 0 && x.longest_k <= x.key.size(1), "max_seqlen_k required with `cu_seqlens_k`");
}

std::int64_t value_or(const std::optional<c10::SymInt>& x, std::int64_t other) { return x ? x->expect_int() : other; }

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Optional& bias,
    const Optional& starts_q, const Optional& starts_k, std::optional<c10::SymInt> max_q,
    std::optional<c10::SymInt> max_k, double dropout, std::int64_t mask, bool with_sums, std::optional<double> scale,
    const Optional& lengths, std::optional<std::int64_t> window) {
  const EfficientArguments x{query, key, value, starts_q, starts_k, value_or(max_q, 0), value_or(max_k, 0), dropout};
  check_efficient(x);
  TORCH_CHECK(!is_given(bias) && !is_given(lengths) && !window && with_sums, "not emulated");
  const bool varying = x.is_varying();
  const std::int64_t longest_q = varying ? x.longest_q : query.size(1), longest_k = varying ? x.longest_k : key.size(1);
  at::Tensor out = at::empty(query.sizes(), query.options());
  at::Tensor sums =
      at::empty({varying ? starts_q->size(0) - 1 : query.size(0), query.size(2), rounded_up(longest_q, 32)},
                query.options().dtype(at::kFloat));
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  std::vector<at::Tensor> inputs{query, key, value};
  if (varying) inputs.insert(inputs.end(), {*starts_q, *starts_k});
  on_stream("efficient attention", inputs, {out, sums},
            [=, kind = efficient_mask(mask)](const auto& in, const auto& to) {
              const Sequences all = sequences_of(in[0], in[1], varying ? in[3] : at::Tensor(),
                                                 varying ? in[4] : at::Tensor(), longest_q, longest_k);
              check_keys(all);
              attend({in[0], in[1], in[2]}, all, {kind, factor, Rounding::none}, to[0], Sums::by_sequence(to[1]));
            });
  const auto word = query.options().dtype(at::kLong);
  return {out, sums, at::empty({}, word), at::empty({}, word), longest_q, longest_k};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_backward(
    const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const Optional& bias, const at::Tensor& out, const Optional& starts_q, const Optional& starts_k, c10::SymInt max_q,
    c10::SymInt max_k, const at::Tensor& sums, double dropout, const at::Tensor&, const at::Tensor&, std::int64_t mask,
    bool, std::optional<double> scale, std::optional<std::int64_t> splits, std::optional<std::int64_t> window,
    bool shared) {
  const EfficientArguments x{query, key, value, starts_q, starts_k, max_q.expect_int(), max_k.expect_int(), dropout};
  check_efficient(x);
  TORCH_CHECK(!is_given(bias) && !window && !shared, "not emulated");
  TORCH_CHECK(dout.sizes() == query.sizes() && out.sizes() == query.sizes(), "dout and out must be shaped as query");
  const std::int64_t head = query.size(3);
  // The kernel knows no stride of the output's rows.
  TORCH_CHECK(out.stride(3) == 1 && out.stride(2) == head && (out.size(1) == 1 || out.stride(1) == head * out.size(2)),
              "efficient attention: the rows of out must be contiguous");
  const bool varying = x.is_varying();
  const std::int64_t longest_q = varying ? x.longest_q : query.size(1), longest_k = varying ? x.longest_k : key.size(1);
  TORCH_CHECK(sums.stride(2) == 1 && sums.size(2) % 32 == 0 && sums.size(2) >= longest_q && sums.stride(1) % 32 == 0,
              "efficient attention reads log-sum-exps in blocks of 32 rows, got ", sums.sizes());
  const at::Tensor dense_dout = dout.contiguous();
  at::Tensor dq = at::empty(query.sizes(), query.options()), dk = at::empty(key.sizes(), key.options()),
             dv = at::empty(value.sizes(), value.options());
  { const at::Tensor delta = at::empty({query.size(0), query.size(2), query.size(1)}, sums.options()); }
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(head)));
  std::vector<at::Tensor> inputs{query, key, value, dense_dout, out, sums};
  if (varying) inputs.insert(inputs.end(), {*starts_q, *starts_k});
  const bool is_split = splits.value_or(2) > 1;
  on_stream("efficient attention's backward", inputs, {dq, dk, dv},
            [=, kind = efficient_mask(mask)](const auto& in, const auto& to) {
              const Sequences all = sequences_of(in[0], in[1], varying ? in[6] : at::Tensor(),
                                                 varying ? in[7] : at::Tensor(), longest_q, longest_k);
              attend_backward({in[0], in[1], in[2]}, {in[3], in[4], Sums::by_sequence(in[5])}, all,
                              {kind, factor, Rounding::none}, {to[0], to[1], to[2]});
              if (is_split) disturb(to[0]);
            });
  return {dq, dk, dv, at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_flash_attention_forward", flash_forward);
  m.impl("_flash_attention_backward", flash_backward);
  m.impl("_efficient_attention_forward", efficient_forward);
  m.impl("_efficient_attention_backward", efficient_backward);
}

}  // namespace emulated
