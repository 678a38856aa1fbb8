// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/low_rank_adapter.h"

#include <optional>

#include "kernels/gemm.h"

namespace llmtrain {

at::Tensor LowRankAdapter::dropped(const at::Tensor& x, const Sequences& rows, const PassContext& pass) const {
  if (!pass.trains() || settings_.dropout == 0) return x;
  kernels::Dropout dropout =
      dropout_at(pass, settings_.dropout, settings_.dropout_site, rows.whole_length() * settings_.input);
  const std::int64_t features = x.size(1);
  if (features != settings_.input) {
    // A tensor rank has some features of each token: one run per row, all ranks' features apart.
    dropout.first_element += a_.part().offset[1];
    dropout.run = features;
    dropout.stride = settings_.input;
  }
  return kernels::dropped_rows(x, dropout, {rows.part, rows.length, 0});
}

void LowRankAdapter::forward(const at::Tensor& x, const at::Tensor& y, const Sequences& rows,
                             const PassContext& pass) const {
  const at::Tensor b = b_.weight();
  const at::Tensor hidden = kernels::linear(dropped(x, rows, pass), a_.weight(), std::nullopt);
  y.narrow(1, settings_.first, b.size(0)).add_(kernels::linear(hidden, b, std::nullopt), settings_.scale);
}

void LowRankAdapter::backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx, const Sequences& rows,
                              const PassContext& pass) const {
  const at::Tensor a = a_.weight(), b = b_.weight();
  const at::Tensor gradient = dy.narrow(1, settings_.first, b.size(0)).contiguous();
  const at::Tensor dhidden = kernels::linear_backward_input(gradient, b).mul_(settings_.scale);
  {
    // Both made again, from the mask's key and by a product of a few columns per row, beside keeping them for every
    // layer and micro-batch.
    const at::Tensor seen = dropped(x, rows, pass);
    b_.add_weight_gradient(gradient, kernels::linear(seen, a, std::nullopt).mul_(settings_.scale));
    a_.add_weight_gradient(dhidden, seen);
  }
  dx.add_(dropped(kernels::linear_backward_input(dhidden, a), rows, pass));
}

}  // namespace llmtrain
