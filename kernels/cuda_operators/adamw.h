// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/adamw.h"

namespace llmtrain::kernels {

// adamw_() (kernels/adamw.h) on a GPU with the kernel of kernels/cuda/optimizer/adamw_kernels.h: one for all runs, with
// no memory beside.

// Whether it takes these, all without gaps: states in fp32, gradients in fp32, bf16 or fp16, compute weights in bf16 or
// fp16.
bool has_cuda_adamw(const AdamwState& state, const at::Tensor& gradients,
                    const std::optional<at::Tensor>& compute_weights);

void cuda_adamw_(AdamwState& state, const at::Tensor& gradients, const AdamwStep& step,
                 const std::optional<at::Tensor>& compute_weights, const DecayRuns& runs);

}  // namespace llmtrain::kernels
