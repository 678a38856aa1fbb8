// SPDX-License-Identifier: Apache-2.0
// CUDA's layer norm: one kernel each way, whose statistics are fp32 for 16-bit numbers, where the CPU's are 16-bit. It
// has no kernel for weights of another type.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <torch/library.h>

#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

using Optional = std::optional<at::Tensor>;

at::ScalarType wide_type(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

void check(const at::Tensor& x, at::IntArrayRef shape, const Optional& parameter) {
  TORCH_CHECK(shape.size() == 1 && x.dim() > 0 && x.size(-1) == shape[0], "only the last dimension is emulated");
  if (!parameter || !parameter->defined()) return;
  TORCH_CHECK(parameter->sizes().equals(shape), "weight and bias must have normalized_shape");
  TORCH_CHECK(parameter->scalar_type() == x.scalar_type(), "expected scalar type ", x.scalar_type(), " but found ",
              parameter->scalar_type());
}

std::vector<std::int64_t> statistics_shape(const at::Tensor& x) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = 1;
  return shape;
}

std::vector<at::Tensor> given(std::vector<at::Tensor> tensors, const Optional& weight, const Optional& bias) {
  if (weight && weight->defined()) tensors.push_back(*weight);
  if (bias && bias->defined()) tensors.push_back(*bias);
  return tensors;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& input, at::IntArrayRef shape,
                                                       const Optional& weight, const Optional& bias, double eps) {
  check(input, shape, weight);
  check(input, shape, bias);
  TORCH_CHECK(!bias || !bias->defined() || (weight && weight->defined()), "a bias without a weight is not emulated");
  const auto wide = wide_type(input);
  at::Tensor y = at::empty(input.sizes(), input.options());
  at::Tensor mean = at::empty(statistics_shape(input), input.options().dtype(wide));
  at::Tensor rstd = at::empty(statistics_shape(input), input.options().dtype(wide));
  on_stream("native_layer_norm", given({input}, weight, bias), {y, mean, rstd},
            [wide, eps, width = shape[0]](const auto& in, const auto& out) {
              const auto parameter = [&](std::size_t i) {
                return in.size() > i ? std::optional(in[i].to(wide)) : std::nullopt;
              };
              const auto [normed, center, scale] =
                  at::native_layer_norm(in[0].to(wide), {width}, parameter(1), parameter(2), eps);
              out[0].copy_(normed);
              out[1].copy_(center);
              out[2].copy_(scale);
            });
  return {y, mean, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& dy, const at::Tensor& input,
                                                        at::IntArrayRef shape, const at::Tensor& mean,
                                                        const at::Tensor& rstd, const Optional& weight,
                                                        const Optional& bias, std::array<bool, 3> wanted) {
  check(input, shape, weight);
  check(input, shape, bias);
  TORCH_CHECK(dy.sizes() == input.sizes() && dy.scalar_type() == input.scalar_type(),
              "the gradient must be shaped and typed as the input");
  TORCH_CHECK(mean.scalar_type() == wide_type(input) && mean.numel() == input.numel() / shape[0] &&
                  rstd.scalar_type() == mean.scalar_type() && rstd.numel() == mean.numel(),
              "one statistic of fp32 for each row");
  at::Tensor dx, dweight, dbias;
  if (wanted[0]) dx = at::empty(input.sizes(), input.options());
  if (wanted[1]) dweight = at::empty(weight->sizes(), weight->options());
  if (wanted[2]) dbias = at::empty(bias->sizes(), bias->options());
  std::vector<at::Tensor> results;
  for (const at::Tensor& t : {dx, dweight, dbias})
    if (t.defined()) results.push_back(t);
  const bool has_weight = weight && weight->defined();
  on_stream("native_layer_norm_backward", given({dy, input, mean, rstd}, weight, bias), results,
            [wanted, has_weight, width = shape[0], rows = statistics_shape(input)](const auto& in, const auto& out) {
              const auto wide = in[2].scalar_type();
              const std::optional<at::Tensor> gamma = has_weight ? std::optional(in[4].to(wide)) : std::nullopt;
              const std::optional<at::Tensor> beta = in.size() > 5 ? std::optional(in[5].to(wide)) : std::nullopt;
              const auto [x, w, b] = at::native_layer_norm_backward(
                  in[0].to(wide), in[1].to(wide), {width}, in[2].view(rows), in[3].view(rows), gamma, beta, wanted);
              std::size_t next = 0;
              for (const at::Tensor& t : {x, w, b})
                if (t.defined()) out[next++].copy_(t);
            });
  return {dx, dweight, dbias};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("native_layer_norm", forward);
  m.impl("native_layer_norm_backward", backward);
}

}  // namespace emulated
