// SPDX-License-Identifier: Apache-2.0
#include "kernels/muon/muon.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda_operators/muon.h"

namespace llmtrain::kernels {

// In pieces, because gradients in another type are widened in a copy.
void muon_mean_(const at::Tensor& mean, const at::Tensor& gradients, const MuonMean& how) {
  if (has_cuda_muon(mean, gradients)) return cuda_muon_mean(mean, gradients, how, mean);
  constexpr std::int64_t piece = 1 << 24;
  for (std::int64_t begin = 0; begin < mean.numel(); begin += piece) {
    const std::int64_t end = std::min(begin + piece, mean.numel());
    mean.slice(0, begin, end)
        .mul_(how.momentum)
        .add_(gradients.slice(0, begin, end), (1 - how.momentum) * how.gradient_scale);
  }
}

at::Tensor muon_mean_ahead(const at::Tensor& mean, const at::Tensor& gradients, const MuonMean& how) {
  if (has_cuda_muon(mean, gradients)) {
    at::Tensor result = at::empty_like(mean);
    cuda_muon_mean(mean, gradients, how, result);
    return result;
  }
  return mean.mul(how.momentum).add_(gradients, (1 - how.momentum) * how.gradient_scale);
}

void muon_step_(const at::Tensor& weights, const at::Tensor& values, const MuonStep& step,
                const std::optional<at::Tensor>& compute_weights) {
  if (has_cuda_muon(weights, values) && (!compute_weights || has_cuda_muon(weights, *compute_weights)))
    return cuda_muon_step_(weights, values, step, compute_weights);
  weights.mul_(1 - step.learning_rate * step.weight_decay).sub_(values, step.learning_rate);
  if (compute_weights) compute_weights->copy_(weights);
}

}  // namespace llmtrain::kernels
