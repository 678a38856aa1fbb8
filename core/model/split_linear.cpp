// SPDX-License-Identifier: Apache-2.0
#include "core/model/split_linear.h"

namespace llmtrain {
// Gathering rows and summing them are each other's gradient, hence the pairs in these four functions.
at::Tensor ColumnLinear::forward(const at::Tensor& x) const { return linear_.forward(split_.whole_rows(x)); }

at::Tensor ColumnLinear::backward(const at::Tensor& dy, const at::Tensor& x) const {
  return split_.own_sum(linear_.backward(dy, split_.whole_rows(x)));
}

RowLinear::RowLinear(BoundParameter weight, std::optional<BoundParameter> bias, const TensorSplit& split)
    // With several ranks the bias must be added after the sum, or it would be added once per rank.
    : split_(split), linear_(weight, split.ranks() > 1 ? std::nullopt : bias) {
  if (split.ranks() > 1) late_bias_ = bias;
}

at::Tensor RowLinear::forward(const at::Tensor& x) const {
  at::Tensor y = split_.own_sum(linear_.forward(x));
  if (late_bias_) y.add_(late_bias_->weight());
  return y;
}

at::Tensor RowLinear::backward(const at::Tensor& dy, const at::Tensor& x) const {
  // From this rank's rows. Where rows are split, the ranks' gradients are summed once per step (gradient_sum()).
  if (late_bias_) add_bias_gradient(dy, *late_bias_);
  return linear_.backward(split_.whole_rows(dy), x);
}

}  // namespace llmtrain
