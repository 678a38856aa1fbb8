// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain::kernels {

// The type in which sums and statistics of such elements are computed: fp32, and of float64 itself.
inline at::ScalarType accumulation_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// LibTorch multiplies fp16 on a CPU without units for it many times slower than fp32, which has all of its numbers.
inline bool is_widened(const at::Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kHalf; }

inline at::Tensor widened(const at::Tensor& x) { return x.to(at::kFloat); }

}  // namespace llmtrain::kernels
