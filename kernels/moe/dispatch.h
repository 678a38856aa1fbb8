// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/moe/expert_rows.h"

namespace llmtrain::kernels {

// The ways from tokens to the rows of their experts and back, without the one-hot matrices of GShard's formulation:
// O(tokens · k · H) instead of O(tokens · experts · capacity · H) (Hwang et al., arXiv 2206.03382, section 3.4). Sums
// run in fp32 (of float64 in float64), over a token's choices in their order: bitwise the same for any number of
// threads. Gates and their gradients are fp32, with float64 rows float64.

// rows[r] = x[token of r]: [T, H] → [rows, H].
at::Tensor dispatch_forward(const at::Tensor& x, const ExpertRows& map);

// dx[t] = Σ_j drows[row of (t, j)]: [rows, H] → [T, H]; 0 where all choices were dropped.
at::Tensor dispatch_backward(const at::Tensor& drows, const ExpertRows& map);

// y[t] = Σ_j gates[t, j] · rows[row of (t, j)], without the dropped choices.
at::Tensor combine_forward(const at::Tensor& rows, const at::Tensor& gates, const ExpertRows& map);

struct CombineGradients {
  at::Tensor rows;   // [rows, H], in dy's type
  at::Tensor gates;  // [T, k]; 0 of dropped choices
};
CombineGradients combine_backward(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& gates,
                                  const ExpertRows& map);

}  // namespace llmtrain::kernels
