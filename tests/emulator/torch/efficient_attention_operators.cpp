// SPDX-License-Identifier: Apache-2.0
// scaled_dot_product_attention()'s "efficient" kernel, by the CPU's flash attention. Without masks and dropout.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <limits>

#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Four forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
             const std::optional<at::Tensor>& mask, bool, double dropout, bool is_causal, std::optional<double> scale) {
  TORCH_CHECK(!mask && dropout == 0, "efficient attention with a mask or dropout is not emulated");
  at::Tensor out = at::empty_like(query, query.options(), at::MemoryFormat::Contiguous);
  // CUDA's kernel pads these to whole blocks of 32.
  const std::int64_t padded = (query.size(2) + 31) / 32 * 32;
  at::Tensor sums = at::empty({query.size(0), query.size(1), padded}, query.options().dtype(at::kFloat));
  on_stream("efficient attention", {query, key, value}, {out, sums}, [=](const auto& in, const auto& to) {
    const auto [y, s] =
        at::_scaled_dot_product_flash_attention_for_cpu(in[0], in[1], in[2], 0, is_causal, std::nullopt, scale);
    to[0].copy_(y);
    to[1].fill_(std::numeric_limits<double>::infinity()).narrow(2, 0, s.size(2)).copy_(s);
  });
  return {out, sums, at::zeros({}, at::kLong), at::zeros({}, at::kLong)};
}

Four backward(const at::Tensor& dy, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
              const at::Tensor&, const at::Tensor& out, const at::Tensor& sums, const at::Tensor&, const at::Tensor&,
              double, std::array<bool, 4>, bool is_causal, std::optional<double> scale) {
  at::Tensor dq = at::empty_like(query), dk = at::empty_like(key), dv = at::empty_like(value);
  on_stream("efficient attention's backward", {dy, query, key, value, out, sums}, {dq, dk, dv},
            [=](const auto& in, const auto& to) {
              const at::Tensor s = in[5].narrow(2, 0, in[1].size(2));
              const auto [a, b, c] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
                  in[0], in[1], in[2], in[3], in[4], s, 0, is_causal, std::nullopt, scale);
              to[0].copy_(a);
              to[1].copy_(b);
              to[2].copy_(c);
            });
  return {dq, dk, dv, at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_scaled_dot_product_efficient_attention", forward);
  m.impl("_scaled_dot_product_efficient_attention_backward", backward);
}

}  // namespace emulated
