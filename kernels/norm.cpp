// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "kernels/cuda_operators/norm.h"
#include "kernels/reference/operators.h"
#include "kernels/vector/level.h"
#include "kernels/vector/norm.h"
#include "kernels/vector_dispatch.h"

namespace llmtrain::kernels {
namespace {

template <class Element>
vector::NormKernels<Element> norm_loops() {
  return vector::at_level([]<int level> { return vector::norm_kernels_for<level, Element>(); });
}

at::TensorOptions fp32_like(const at::Tensor& x) { return x.options().dtype(at::kFloat); }

// The loops take weight and bias in fp32: converting [H] once per call is cheap beside the rows.
at::Tensor fp32_vector(const at::Tensor& x) { return x.to(at::kFloat).contiguous(); }

// Zeros instead of no bias save a branch in the loop.
at::Tensor fp32_bias(const NormParameters& parameters) {
  if (parameters.bias) return fp32_vector(*parameters.bias);
  return at::zeros({parameters.weight.numel()}, fp32_like(parameters.weight));
}

float* fp32_or_null(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }

std::int64_t row_count(const at::Tensor& x) { return x.size(-1) == 0 ? 0 : x.numel() / x.size(-1); }

NormOutput empty_output(const at::Tensor& x, NormMode mode) {
  NormOutput output{.y = at::empty_like(x), .mean = {}, .rstd = at::empty({row_count(x)}, fp32_like(x))};
  if (mode == NormMode::layer) output.mean = at::empty({row_count(x)}, fp32_like(x));
  return output;
}

// Calls `body` with the arrays of a forward from x, or from residual + x, into `output`.
template <class Body>
void with_forward_arrays(const at::Tensor& x, const at::Tensor& residual, const NormParameters& parameters,
                         const NormOutput& output, Body body) {
  const at::Tensor weight = fp32_vector(parameters.weight);
  const at::Tensor bias = fp32_bias(parameters);
  with_element_of(x, [&]<class Element> {
    body(vector::NormForwardArrays<Element>{
        .x = elements<Element>(x),
        .residual = residual.defined() ? mutable_elements<Element>(residual) : nullptr,
        .weight = weight.const_data_ptr<float>(),
        .bias = bias.const_data_ptr<float>(),
        .y = mutable_elements<Element>(output.y),
        .mean = fp32_or_null(output.mean),
        .rstd = fp32_or_null(output.rstd),
        .rows = row_count(x),
        .width = x.size(-1),
        .eps = static_cast<float>(parameters.eps)});
  });
}

}  // namespace

NormOutput norm_forward(const at::Tensor& x, const NormParameters& parameters) {
  if (has_cuda_norm(x, parameters)) return cuda_norm_forward(x, parameters);
  if (!has_vector_type(x)) return reference::norm_forward(x, parameters);
  const at::Tensor rows = x.contiguous();
  NormOutput output = empty_output(rows, parameters.mode);
  with_forward_arrays(
      rows, {}, parameters, output,
      []<class Element>(const vector::NormForwardArrays<Element>& arrays) { norm_loops<Element>().forward(arrays); });
  return output;
}

NormOutput add_norm_forward(at::Tensor& residual, const at::Tensor& x, const NormParameters& parameters) {
  const bool same_type = residual.scalar_type() == x.scalar_type();
  if (same_type && residual.is_contiguous() && has_cuda_norm(x, parameters))
    return cuda_add_norm_forward(residual, x, parameters);
  // residual is changed in place, so it cannot be made contiguous by a copy as x is.
  if (!is_vector_array(residual) || !same_type) {
    residual.add_(x);
    return norm_forward(residual, parameters);
  }
  const at::Tensor rows = x.contiguous();
  NormOutput output = empty_output(rows, parameters.mode);
  with_forward_arrays(rows, residual, parameters, output,
                      []<class Element>(const vector::NormForwardArrays<Element>& arrays) {
                        norm_loops<Element>().add_forward(arrays);
                      });
  return output;
}

at::Tensor norm_recompute(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                          const NormParameters& parameters) {
  if (has_cuda_norm(x, parameters)) return cuda_norm_recompute(x, parameters);
  if (!has_vector_type(x)) return reference::norm_recompute(x, mean, rstd, parameters);
  const at::Tensor rows = x.contiguous();
  // The forward's statistics go in, and the loop that normalises is the forward's: the bits are the same.
  const NormOutput output{.y = at::empty_like(rows), .mean = mean, .rstd = rstd};
  with_forward_arrays(
      rows, {}, parameters, output,
      []<class Element>(const vector::NormForwardArrays<Element>& arrays) { norm_loops<Element>().recompute(arrays); });
  return output.y;
}

void norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                   const NormParameters& parameters, at::Tensor& dx, at::Tensor& dweight,
                   std::optional<at::Tensor> dbias, Accumulation accumulation) {
  const bool same_type = dy.scalar_type() == x.scalar_type() && dx.scalar_type() == x.scalar_type();
  if (same_type && x.numel() > 0 && has_cuda_norm(x, parameters)) {
    cuda_norm_backward(dy, x, mean, rstd, parameters, dx, dweight, dbias, accumulation);
    return;
  }
  // What follows only adds.
  if (accumulation == Accumulation::overwrite) {
    dweight.zero_();
    if (dbias) dbias->zero_();
  }
  if (!is_vector_array(dx) || !same_type) {
    reference::norm_backward(dy, x, mean, rstd, parameters, dx, dweight, dbias);
    return;
  }
  const std::int64_t rows = row_count(x);
  const std::int64_t width = x.size(-1);
  const std::int64_t blocks = (rows + vector::norm_block_rows - 1) / vector::norm_block_rows;
  const at::Tensor weight = fp32_vector(parameters.weight);
  // Sums over rows are formed per block of a fixed number of rows and then over the blocks, so they do not depend on
  // the number of threads.
  const at::Tensor partials = at::empty({blocks, 2, width}, fp32_like(x));
  const at::Tensor sums = at::empty({2, width}, fp32_like(x));
  const at::Tensor contiguous_dy = dy.contiguous();
  const at::Tensor contiguous_x = x.contiguous();
  with_element_of(x, [&]<class Element> {
    norm_loops<Element>().backward({.dy = elements<Element>(contiguous_dy),
                                    .x = elements<Element>(contiguous_x),
                                    .mean = fp32_or_null(mean),
                                    .rstd = rstd.const_data_ptr<float>(),
                                    .weight = weight.const_data_ptr<float>(),
                                    .dx = mutable_elements<Element>(dx),
                                    .partials = partials.mutable_data_ptr<float>(),
                                    .dweight = sums.mutable_data_ptr<float>(),
                                    .dbias = mean.defined() ? sums.mutable_data_ptr<float>() + width : nullptr,
                                    .rows = rows,
                                    .width = width});
  });
  // Added here and not in the loop, because the gradients may be of any float type.
  dweight.add_(sums[0]);
  if (dbias) dbias->add_(sums[1]);
}

}  // namespace llmtrain::kernels
