// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/vector/dropout.h"

namespace llmtrain::kernels {

// Consecutive elements of a tensor that are consecutive in the unsharded one, too.
struct DropoutRun {
  std::int64_t offset = 0;
  std::int64_t length = 0;
  std::int64_t first_element = 0;  // in the unsharded tensor
};

// Dropout (kernels/random/dropout.h) on a GPU with the kernel of kernels/cuda/dropout_kernels.h, with no memory beside.

// Whether it takes x: fp32, bf16 or fp16.
bool has_cuda_dropout(const at::Tensor& x);

// out = dropout(x), plus the residual where it is defined; all contiguous, of one shape and one type, and out may be x.
// The runs are all of x in their order. One kernel where they have one length and are equally far apart.
void cuda_dropout(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& out,
                  const std::vector<DropoutRun>& runs, const vector::DropoutMask& mask);

}  // namespace llmtrain::kernels
