// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/tensor_operands.h"

#include "kernels/cuda/kernel_table.h"

namespace llmtrain::kernels {

std::optional<KernelElement> element_of(const at::Tensor& x) {
  if (x.scalar_type() == at::kFloat) return KernelElement::fp32;
  if (x.scalar_type() == at::kBFloat16) return KernelElement::bf16;
  if (x.scalar_type() == at::kHalf) return KernelElement::fp16;
  return std::nullopt;
}

bool has_kernels(const at::Tensor& x) { return x.is_cuda() && has_kernel_table() && element_of(x); }

void* stream_of(const at::Tensor& x) { return kernel_table()->current_stream(x.device().index()); }

}  // namespace llmtrain::kernels
