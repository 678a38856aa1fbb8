// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain {

// The load-importance loss of a micro-batch (Riquelme et al., arXiv 2106.05974, appendix A): half the sum of the
// squared coefficients of variation, over the experts, of their importance and of their load. The importance of expert
// e is the sum over tokens of its probability without noise; its load the sum over tokens of Φ((logit_te − threshold_t)
// ÷ σ), the probability that it is chosen when only its noise, of standard deviation σ, is drawn again; the threshold
// is the smallest of the chosen logits, with noise.
struct LoadImportance {
  at::Tensor logits;      // [T, E], without noise
  at::Tensor thresholds;  // [T, 1]
  double deviation = 0;   // σ

  // Importance and load of the experts: float64 [2·E], sums over these tokens.
  at::Tensor sums() const;
  // The loss of the sums over all tokens of the micro-batch, float64 without axes.
  static at::Tensor loss(const at::Tensor& sums);
  // Its gradient for the logits here, with and without noise alike; `last`, int64 [T, 1]: the experts of the
  // thresholds.
  at::Tensor gradient(const at::Tensor& sums, const at::Tensor& last) const;
};

}  // namespace llmtrain
