// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/cuda_operators/element_runs.h"
#include "kernels/moe/jitter.h"

namespace llmtrain::kernels {

// Random factors of a router's inputs (kernels/moe/jitter.h) on a GPU with the kernel of
// kernels/cuda/moe/jitter_kernels.h, with no memory beside.

// Whether it takes x: fp32, bf16 or fp16.
bool has_cuda_jitter(const at::Tensor& x);

// out (fp32) = x times its factors; both contiguous and of one shape, and out may be x. The runs are all of x in their
// order. One kernel where they have one length and are equally far apart.
void cuda_jitter(const at::Tensor& x, const at::Tensor& out, const std::vector<ElementRun>& runs, const Jitter& jitter);

}  // namespace llmtrain::kernels
