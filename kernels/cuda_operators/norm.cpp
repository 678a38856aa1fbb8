// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {
namespace {

at::TensorOptions statistics_options(const at::Tensor& x) { return x.options().dtype(at::kFloat); }

std::int64_t rows_of(const at::Tensor& x) { return x.size(-1) == 0 ? 0 : x.numel() / x.size(-1); }

float* statistics_or_null(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }

// The norm of x, or of residual + x where there is one.
NormOutput forward(const at::Tensor& x, void* residual, const NormParameters& parameters) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor rows = x.contiguous(), weight = parameters.weight.contiguous();
  const at::Tensor bias = parameters.bias ? parameters.bias->contiguous() : at::Tensor();
  NormOutput output{.y = at::empty_like(rows), .mean = {}, .rstd = at::empty({rows_of(x)}, statistics_options(x))};
  if (parameters.mode == NormMode::layer) output.mean = at::empty({rows_of(x)}, statistics_options(x));
  kernel_table()->norm->forward({.element = *element_of(x),
                                 .x = rows.const_data_ptr(),
                                 .residual = residual,
                                 .weight = weight.const_data_ptr(),
                                 .bias = bias.defined() ? bias.const_data_ptr() : nullptr,
                                 .y = output.y.mutable_data_ptr(),
                                 .mean = statistics_or_null(output.mean),
                                 .rstd = statistics_or_null(output.rstd),
                                 .rows = rows_of(x),
                                 .width = static_cast<int>(x.size(-1)),
                                 .eps = static_cast<float>(parameters.eps)},
                                stream_of(x));
  return output;
}

bool is_fp32_row(const at::Tensor& gradient) {
  return gradient.scalar_type() == at::kFloat && gradient.is_contiguous();
}

at::Tensor new_sum_of(const at::Tensor& gradient) { return at::empty(gradient.sizes(), statistics_options(gradient)); }

void store_sum(at::Tensor gradient, const at::Tensor& sum, Accumulation accumulation) {
  if (accumulation == Accumulation::add) {
    gradient.add_(sum);
  } else {
    gradient.copy_(sum);
  }
}

}  // namespace

bool has_cuda_norm(const at::Tensor& x, const NormParameters& parameters) {
  const auto has_type = [&](const at::Tensor& t) { return t.scalar_type() == x.scalar_type(); };
  return has_kernels(x) && x.size(-1) <= widest_norm(parameters.mode == NormMode::layer) &&
         has_type(parameters.weight) && (!parameters.bias || has_type(*parameters.bias));
}

NormOutput cuda_norm_forward(const at::Tensor& x, const NormParameters& parameters) {
  return forward(x, nullptr, parameters);
}

NormOutput cuda_add_norm_forward(at::Tensor& residual, const at::Tensor& x, const NormParameters& parameters) {
  return forward(x, residual.mutable_data_ptr(), parameters);
}

at::Tensor cuda_norm_recompute(const at::Tensor& x, const NormParameters& parameters) {
  return cuda_norm_forward(x, parameters).y;
}

void cuda_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                        const NormParameters& parameters, at::Tensor& dx, at::Tensor& dweight,
                        std::optional<at::Tensor> dbias, Accumulation accumulation) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor gradient = dy.contiguous(), rows = x.contiguous(), weight = parameters.weight.contiguous();
  // The kernel adds to rows without gaps.
  const at::Tensor total = dx.contiguous();
  const at::Tensor partials = at::empty({norm_partials(rows_of(x), x.size(-1), mean.defined())}, statistics_options(x));
  // Gradients of other types are added to afterwards.
  const bool in_place = is_fp32_row(dweight) && (!dbias || is_fp32_row(*dbias));
  const at::Tensor weight_sum = in_place ? dweight : new_sum_of(dweight);
  // Without a mean there is no bias. With one, its sums are formed whether anybody wants them or not.
  at::Tensor bias_sum;
  if (dbias) bias_sum = in_place ? *dbias : new_sum_of(*dbias);
  kernel_table()->norm->backward({.element = *element_of(x),
                                  .dy = gradient.const_data_ptr(),
                                  .x = rows.const_data_ptr(),
                                  .mean = mean.defined() ? mean.const_data_ptr<float>() : nullptr,
                                  .rstd = rstd.const_data_ptr<float>(),
                                  .weight = weight.const_data_ptr(),
                                  .dx = total.mutable_data_ptr(),
                                  .partials = partials.mutable_data_ptr<float>(),
                                  .dweight = weight_sum.mutable_data_ptr<float>(),
                                  .dbias = statistics_or_null(bias_sum),
                                  .rows = rows_of(x),
                                  .width = static_cast<int>(x.size(-1)),
                                  .adds = in_place && accumulation == Accumulation::add},
                                 stream_of(x));
  if (!dx.is_same(total)) dx.copy_(total);
  if (in_place) return;
  store_sum(dweight, weight_sum, accumulation);
  if (dbias) store_sum(*dbias, bias_sum, accumulation);
}

}  // namespace llmtrain::kernels
