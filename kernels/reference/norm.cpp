// SPDX-License-Identifier: Apache-2.0
#include "kernels/accumulation_type.h"
#include "kernels/reference/operators.h"

#include <ATen/TensorOperators.h>

namespace llmtrain::kernels::reference {
namespace {

at::Tensor wide_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}).to(accumulation_type(x)); }

// (x − mean)·rstd as [rows, H] in the statistics' type.
at::Tensor normalized_rows(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd) {
  const at::Tensor rows = wide_rows(x);
  return (mean.defined() ? rows - mean.unsqueeze(-1) : rows) * rstd.unsqueeze(-1);
}

}  // namespace

NormOutput norm_forward(const at::Tensor& x, const NormParameters& parameters) {
  at::Tensor rows = wide_rows(x);
  NormOutput output;
  if (parameters.mode == NormMode::layer) {
    output.mean = rows.mean(-1);
    rows = rows - output.mean.unsqueeze(-1);
  }
  output.rstd = (rows.square().mean(-1) + parameters.eps).rsqrt();
  // Through recompute, so that both give the same bits.
  output.y = reference::norm_recompute(x, output.mean, output.rstd, parameters);
  return output;
}

at::Tensor norm_recompute(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                          const NormParameters& parameters) {
  at::Tensor y = normalized_rows(x, mean, rstd) * parameters.weight.to(rstd.scalar_type());
  if (parameters.bias) y = y + parameters.bias->to(rstd.scalar_type());
  return y.to(x.scalar_type()).view(x.sizes());
}

void norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                   const NormParameters& parameters, at::Tensor& dx, at::Tensor& dweight,
                   std::optional<at::Tensor> dbias) {
  const at::Tensor normalized = normalized_rows(x, mean, rstd);
  const at::Tensor wide_dy = dy.reshape({-1, dy.size(-1)}).to(rstd.scalar_type());
  const at::Tensor g = wide_dy * parameters.weight.to(rstd.scalar_type());
  // dx = rstd·(g − h·mean(g·h) − mean(g)) with g = dy·weight and h the normalised rows; the last term exists only where
  // the mean is subtracted.
  at::Tensor input_gradient = g - normalized * (g * normalized).mean(-1, true);
  if (parameters.mode == NormMode::layer) input_gradient = input_gradient - g.mean(-1, true);
  dx.add_((input_gradient * rstd.unsqueeze(-1)).view(dx.sizes()));
  dweight.add_((wide_dy * normalized).sum(0));
  if (dbias) dbias->add_(wide_dy.sum(0));
}

}  // namespace llmtrain::kernels::reference
