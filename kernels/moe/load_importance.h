// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain::kernels {

// The load-importance loss of a micro-batch (Riquelme et al., arXiv 2106.05974, appendix A), in fp32 or float64: half
// the sum of the squared coefficients of variation, over the experts, of their importance and of their load. The
// importance of expert e is the sum over tokens of its probability without noise; its load the sum over tokens of
// Φ((logit_te − threshold_t) ÷ σ), the probability that it is chosen when only its noise, of standard deviation σ, is
// drawn again; the threshold is the smallest of the chosen logits, with noise. On a GPU nobody waits, here and below.

// What the backward needs of T tokens.
struct LoadImportance {
  at::Tensor logits;      // [T, E], without noise
  at::Tensor thresholds;  // [T, 1]
  double deviation = 0;   // σ
};

struct LoadImportanceTokens {
  LoadImportance kept;
  at::Tensor partials;  // what a GPU's kernel has added up for with_load_importance(); else undefined
};

// `noisy`: the logits with noise; `experts` int64 [T, k], the choices of each token, best first.
LoadImportanceTokens load_importance(const at::Tensor& logits, const at::Tensor& noisy, const at::Tensor& experts,
                                     double deviation);

// Float64 [numbers + 2·E]: `totals` (float64 [numbers]) and behind them importance and load of the experts, sums over
// these tokens.
at::Tensor with_load_importance(const at::Tensor& totals, const LoadImportanceTokens& tokens);

// Writes the loss of importance and load of all tokens of the micro-batch, `sums` float64 [2·E], to `loss`, float64
// without axes; returns its slopes [2·E] along the sums, in the type of the kept logits.
at::Tensor load_importance_loss(const at::Tensor& sums, const LoadImportance& kept, const at::Tensor& loss);

// Adds to dlogits [T, E] the multiple by `scale` of the loss's gradient for the logits here, with and without noise
// alike, as the slopes say; `experts` as above.
void add_load_importance_gradient_(at::Tensor& dlogits, const LoadImportance& kept, const at::Tensor& slopes,
                                   const at::Tensor& experts, double scale);

}  // namespace llmtrain::kernels
