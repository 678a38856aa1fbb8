// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/gemm.h"

namespace llmtrain::kernels {

// Layer normalisation (Ba et al., arXiv 1607.06450) when `mean` is wanted, root-mean-square normalisation (Zhang and
// Sennrich, arXiv 1910.07467) otherwise. Rows are the last axis; statistics are fp32 (float64 for float64 input).
enum class NormMode { layer, root_mean_square };

struct NormParameters {
  NormMode mode = NormMode::layer;
  at::Tensor weight;               // [H]
  std::optional<at::Tensor> bias;  // [H], layer mode only
  double eps = 1e-5;
};

struct NormOutput {
  at::Tensor y;
  at::Tensor mean;  // [rows]; undefined in root_mean_square mode
  at::Tensor rstd;  // [rows]
};

// y = (x − mean)·rstd·weight + bias, in x's dtype.
NormOutput norm_forward(const at::Tensor& x, const NormParameters& parameters);

// residual += x in place, then the norm of the sum: the residual connection and the next norm in one pass.
NormOutput add_norm_forward(at::Tensor& residual, const at::Tensor& x, const NormParameters& parameters);

// y again from x and the saved statistics, on a CPU without another reduction: for recompute. Bitwise the forward's y.
at::Tensor norm_recompute(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                          const NormParameters& parameters);

// dx += gradient of the norm at x: dx already holds the gradient of the residual connection. dweight and dbias are
// overwritten or added to (their dtype may be wider than x's); the sums over rows are in a fixed order.
void norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                   const NormParameters& parameters, at::Tensor& dx, at::Tensor& dweight,
                   std::optional<at::Tensor> dbias, Accumulation accumulation);

}  // namespace llmtrain::kernels
