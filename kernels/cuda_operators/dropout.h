// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/cuda_operators/element_runs.h"
#include "kernels/vector/dropout.h"

namespace llmtrain::kernels {

// Dropout (kernels/random/dropout.h) on a GPU with the kernel of kernels/cuda/dropout_kernels.h, with no memory beside.

// Whether it takes x: fp32, bf16 or fp16.
bool has_cuda_dropout(const at::Tensor& x);

// out = dropout(x), plus the residual where it is defined; all contiguous, of one shape and one type, and out may be x.
// The runs are all of x in their order. One kernel where they have one length and are equally far apart.
void cuda_dropout(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& out,
                  const std::vector<ElementRun>& runs, const vector::DropoutMask& mask);

}  // namespace llmtrain::kernels
