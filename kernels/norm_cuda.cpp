// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm_cuda.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/sum.h>

#include "kernels/accumulation_type.h"

namespace llmtrain::kernels {
namespace {

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                          const NormParameters& parameters) {
  const std::int64_t width = x.size(1);
  if (parameters.mode == NormMode::root_mean_square)
    return std::get<0>(
        at::_fused_rms_norm_backward(dy, x, {width}, rstd.unsqueeze(1), parameters.weight, {true, false}));
  return std::get<0>(at::native_layer_norm_backward(dy, x, {width}, mean.unsqueeze(1), rstd.unsqueeze(1),
                                                    parameters.weight, parameters.bias, {true, false, false}));
}

}  // namespace

bool has_cuda_norm(const at::Tensor& x, const NormParameters& parameters) {
  const auto has_type = [&](const at::Tensor& t) { return t.scalar_type() == x.scalar_type(); };
  return x.is_cuda() && has_type(parameters.weight) && (!parameters.bias || has_type(*parameters.bias));
}

NormOutput cuda_norm_forward(const at::Tensor& x, const NormParameters& parameters) {
  const std::int64_t width = x.size(-1);
  NormOutput output;
  if (parameters.mode == NormMode::root_mean_square) {
    std::tie(output.y, output.rstd) = at::_fused_rms_norm(x, {width}, parameters.weight, parameters.eps);
  } else {
    std::tie(output.y, output.mean, output.rstd) =
        at::native_layer_norm(x, {width}, parameters.weight, parameters.bias, parameters.eps);
    output.mean = output.mean.view({-1});
  }
  output.rstd = output.rstd.view({-1});
  return output;
}

at::Tensor cuda_norm_recompute(const at::Tensor& x, const NormParameters& parameters) {
  return cuda_norm_forward(x, parameters).y;
}

void cuda_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                        const NormParameters& parameters, at::Tensor& dx, at::Tensor& dweight,
                        std::optional<at::Tensor> dbias) {
  const at::Tensor gradient = rows_of(dy), rows = rows_of(x);
  dx.add_(input_gradient(gradient, rows, mean, rstd, parameters).view(dx.sizes()));
  // Operands of two types are widened as they are read.
  at::Tensor products =
      mean.defined() ? at::sub(rows, mean.unsqueeze(1)).mul_(rstd.unsqueeze(1)) : at::mul(rows, rstd.unsqueeze(1));
  dweight.add_(products.mul_(gradient).sum(0));
  if (dbias) dbias->add_(at::sum(gradient, {0}, false, accumulation_type(gradient)));
}

}  // namespace llmtrain::kernels
