// SPDX-License-Identifier: Apache-2.0
// CUDA's fused RMS norm: one kernel each way, with fp32 arithmetic for 16-bit numbers. The CPU has none.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rsqrt.h>
#include <torch/library.h>

#include <limits>

#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

at::ScalarType accumulation_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

// The dimensions that are normalized are the last ones.
std::vector<std::int64_t> normalized_dimensions(std::size_t count) {
  std::vector<std::int64_t> dimensions;
  for (std::size_t i = 1; i <= count; ++i) dimensions.push_back(-static_cast<std::int64_t>(i));
  return dimensions;
}

std::vector<std::int64_t> leading_dimensions(std::int64_t all, std::size_t normalized) {
  std::vector<std::int64_t> dimensions;
  for (std::int64_t i = 0; i < all - static_cast<std::int64_t>(normalized); ++i) dimensions.push_back(i);
  return dimensions;
}

void check(const at::Tensor& x, at::IntArrayRef shape, const std::optional<at::Tensor>& weight) {
  const auto count = static_cast<std::int64_t>(shape.size());
  TORCH_CHECK(x.dim() >= count && x.sizes().slice(static_cast<std::size_t>(x.dim() - count)).equals(shape),
              "Given normalized_shape=", shape, ", expected input with shape [*, ", shape, "], but got ", x.sizes());
  TORCH_CHECK(!weight || !weight->defined() || weight->sizes().equals(shape),
              "Expected weight to be of same shape as normalized_shape");
  TORCH_CHECK(!weight || !weight->defined() || weight->scalar_type() == x.scalar_type(),
              "the weight's dtype is not the input's: LibTorch would not take its fused kernel");
}

std::vector<at::Tensor> with(std::vector<at::Tensor> tensors, const std::optional<at::Tensor>& weight) {
  if (weight && weight->defined()) tensors.push_back(*weight);
  return tensors;
}

std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& input, at::IntArrayRef shape,
                                           const std::optional<at::Tensor>& weight, std::optional<double> given) {
  check(input, shape, weight);
  const at::ScalarType wide = accumulation_type(input.scalar_type());
  const double epsilon = given.value_or(wide == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                            : std::numeric_limits<float>::epsilon());
  std::vector<std::int64_t> sizes = input.sizes().vec();
  for (std::size_t i = sizes.size() - shape.size(); i < sizes.size(); ++i) sizes[i] = 1;
  at::Tensor y = at::empty_like(input, at::MemoryFormat::Contiguous);
  at::Tensor rstd = at::empty(sizes, input.options().dtype(wide));
  on_stream("_fused_rms_norm", with({input}, weight), {y, rstd},
            [=, dimensions = normalized_dimensions(shape.size())](const auto& in, const auto& out) {
              const at::Tensor x = in[0].to(wide);
              out[1].copy_(at::rsqrt(x.square().mean(dimensions, true).add_(epsilon)));
              at::Tensor scaled = x * out[1];
              if (in.size() > 1) scaled.mul_(in[1].to(wide));
              out[0].copy_(scaled);
            });
  return {y, rstd};
}

std::tuple<at::Tensor, at::Tensor> backward(const at::Tensor& dy, const at::Tensor& input, at::IntArrayRef shape,
                                            const at::Tensor& rstd, const std::optional<at::Tensor>& weight,
                                            std::array<bool, 2> wanted) {
  check(input, shape, weight);
  TORCH_CHECK(dy.sizes().equals(input.sizes()), "the gradient's shape is not the input's");
  const bool has_weight = weight && weight->defined();
  at::Tensor dx, dweight;
  if (wanted[0]) dx = at::empty_like(input, at::MemoryFormat::Contiguous);
  if (wanted[1] && has_weight) dweight = at::empty_like(*weight, at::MemoryFormat::Contiguous);
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& t : {dx, dweight})
    if (t.defined()) outputs.push_back(t);
  if (outputs.empty()) return {dx, dweight};
  const auto last = normalized_dimensions(shape.size());
  const auto first = leading_dimensions(input.dim(), shape.size());
  on_stream("_fused_rms_norm_backward", with({dy, input, rstd}, weight), outputs,
            [=, has_dx = dx.defined(), has_dweight = dweight.defined()](const auto& in, const auto& out) {
              const at::ScalarType wide = accumulation_type(in[1].scalar_type());
              const at::Tensor g = in[0].to(wide), normed = in[1].to(wide) * in[2];
              const at::Tensor weighted = has_weight ? g * in[3].to(wide) : g;
              if (has_dx) out[0].copy_((weighted - normed * (weighted * normed).mean(last, true)) * in[2]);
              if (has_dweight) out.back().copy_(first.empty() ? g * normed : (g * normed).sum(first));
            });
  return {dx, dweight};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_fused_rms_norm", forward);
  m.impl("_fused_rms_norm_backward", backward);
}

}  // namespace emulated
