// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/low_rank_adapter.h"

#include <optional>

#include "kernels/gemm.h"

namespace llmtrain {

void LowRankAdapter::forward(const at::Tensor& x, const at::Tensor& y) const {
  const at::Tensor b = b_.weight();
  const at::Tensor hidden = kernels::linear(x, a_.weight(), std::nullopt);
  y.narrow(1, first_, b.size(0)).add_(kernels::linear(hidden, b, std::nullopt), scale_);
}

void LowRankAdapter::backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx) const {
  const at::Tensor a = a_.weight(), b = b_.weight();
  const at::Tensor gradient = dy.narrow(1, first_, b.size(0)).contiguous();
  // Made again: a few columns per row, beside keeping them for every layer and micro-batch.
  b_.add_weight_gradient(gradient, kernels::linear(x, a, std::nullopt).mul_(scale_));
  const at::Tensor dhidden = kernels::linear_backward_input(gradient, b).mul_(scale_);
  a_.add_weight_gradient(dhidden, x);
  dx.add_(kernels::linear_backward_input(dhidden, a));
}

}  // namespace llmtrain
