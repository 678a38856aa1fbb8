// SPDX-License-Identifier: Apache-2.0
#include "core/model/split_linear.h"

#include "kernels/gemm.h"

namespace llmtrain {
namespace {

std::optional<LinearLayer::Group> early_bias(std::optional<std::size_t> bias, const TensorSplit& split) {
  if (!bias || split.ranks() > 1) return std::nullopt;
  return LinearLayer::Group{*bias, *bias};
}

}  // namespace

at::Tensor ColumnLinear::forward(const at::Tensor& x) const { return linear_.forward(split_.whole_rows(x)); }

at::Tensor ColumnLinear::backward(const at::Tensor& dy, const at::Tensor& x) const {
  return split_.own_sum(linear_.backward(dy, split_.whole_rows(x)));
}

RowLinear::RowLinear(ParameterStore& store, std::size_t weight, std::optional<std::size_t> bias,
                     const TensorSplit& split)
    : store_(store), split_(split), linear_(store, {weight, weight}, early_bias(bias, split)) {
  if (split.ranks() > 1) late_bias_ = bias;
}

at::Tensor RowLinear::forward(const at::Tensor& x) const {
  at::Tensor y = split_.own_sum(linear_.forward(x));
  if (late_bias_) y.add_(store_.weight(*late_bias_));
  return y;
}

at::Tensor RowLinear::backward(const at::Tensor& dy, const at::Tensor& x) const {
  if (late_bias_) {
    auto dbias = store_.gradient(*late_bias_);
    kernels::linear_backward_bias(dy, dbias.tensor, dbias.accumulation);
  }
  return linear_.backward(split_.whole_rows(dy), x);
}

}  // namespace llmtrain
