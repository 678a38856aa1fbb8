// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/moe/dispatch.h"

namespace llmtrain::kernels {

// The ways between tokens and the rows of their experts (kernels/moe/dispatch.h) on a GPU with the kernels of
// kernels/cuda/moe/dispatch_kernels.h: one each, with no memory beside their results.

// Whether they take x, tokens' or rows: fp32, bf16 or fp16 without gaps, with a map without gaps.
bool has_cuda_dispatch(const at::Tensor& x, const ExpertRows& map);

// Rows that are no choice's stay as their memory was.
at::Tensor cuda_dispatch(const at::Tensor& x, const ExpertRows& map);

// Undefined gates are all 1; others are fp32.
at::Tensor cuda_combine(const at::Tensor& rows, const at::Tensor& gates, const ExpertRows& map);

// dy has the type of the rows, and gates are fp32. Gradients of rows that are no choice's stay as their memory was.
CombineGradients cuda_combine_backward(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& gates,
                                       const ExpertRows& map);

}  // namespace llmtrain::kernels
