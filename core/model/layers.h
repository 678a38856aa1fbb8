// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/model/other_ranks.h"
#include "core/parameters/parameter_store.h"
#include "core/recipe/recipe.h"
#include "kernels/norm.h"

namespace llmtrain {

// Layer or root-mean-square normalisation over the last axis, with parameters that are stored elsewhere.
class NormLayer {
 public:
  struct Statistics {
    at::Tensor mean, rstd;
  };

  NormLayer(NormKind kind, double eps, BoundParameter weight, std::optional<BoundParameter> bias);

  at::Tensor forward(const at::Tensor& x, Statistics& statistics) const;
  at::Tensor recompute(const at::Tensor& x, const Statistics& statistics) const;
  // dx += the gradient at x; adds to the gradients of weight and bias.
  void backward(const at::Tensor& dy, const at::Tensor& x, const Statistics& statistics, at::Tensor& dx) const;

 private:
  kernels::NormParameters parameters() const;

  kernels::NormMode mode_;
  double eps_;
  BoundParameter weight_;
  std::optional<BoundParameter> bias_;
};

// y = x · weightᵀ + bias. Weight and bias may each be several consecutive parameters used as one matrix.
class LinearLayer {
 public:
  LinearLayer(BoundParameter weight, std::optional<BoundParameter> bias) : weight_(weight), bias_(bias) {}

  at::Tensor forward(const at::Tensor& x) const;  // [T, in] → [T, out]
  // Adds to the gradients of weight and bias; returns dx.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& x) const;

 private:
  BoundParameter weight_;
  std::optional<BoundParameter> bias_;
};

// The two kinds of linear layer of tensor parallelism (Shoeybi et al., arXiv 1909.08053, section 3), with the rows
// split as in Korthikanti et al. (arXiv 2205.05198). With one rank both are a plain linear layer.

// This rank computes some of the output features from all input features.
class ColumnLinear {
 public:
  ColumnLinear(LinearLayer linear, const TensorSplit& split) : linear_(linear), split_(split) {}

  at::Tensor forward(const at::Tensor& x) const;  // own rows [R, in] → all rows [T, out/ranks]
  // x is the forward's input, whose rows are gathered again rather than kept; returns its gradient.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& x) const;

 private:
  LinearLayer linear_;
  TensorSplit split_;
};

// This rank uses some of the input features; the ranks' products are summed, and the bias is added to the sum.
class RowLinear {
 public:
  RowLinear(BoundParameter weight, std::optional<BoundParameter> bias, const TensorSplit& split);

  at::Tensor forward(const at::Tensor& x) const;                         // all rows [T, in/ranks] → own rows [R, out]
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& x) const;  // returns dx

 private:
  TensorSplit split_;
  LinearLayer linear_;                       // includes the bias where there is one rank
  std::optional<BoundParameter> late_bias_;  // where there are several
};

}  // namespace llmtrain
