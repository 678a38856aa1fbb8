// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/gemm.h"

namespace llmtrain::kernels {

// What experts' weights get from their products (kernels/moe/grouped_products.h) on a GPU with the kernel of
// kernels/cuda/moe/group_gradient_kernels.h: one, with no memory beside.

// Both [E, out, in] without gaps, gradients in fp32 or the products' type, or it throws Error. `ends`, int32 [E]:
// behind each expert's rows. Products of experts without rows count as 0, whatever they are: some GPUs' kernels write
// none.
void cuda_store_group_gradients(const at::Tensor& products, const at::Tensor& ends, const at::Tensor& gradients,
                                Accumulation accumulation);

}  // namespace llmtrain::kernels
