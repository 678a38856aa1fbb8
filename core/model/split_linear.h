// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/model/linear_layer.h"
#include "core/model/tensor_split.h"

namespace llmtrain {

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
