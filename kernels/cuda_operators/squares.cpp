// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/squares.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {

bool has_cuda_squares(const at::Tensor& x) { return has_kernels(x) && x.is_contiguous(); }

at::Tensor cuda_sum_of_squares(const at::Tensor& x) {
  const c10::DeviceGuard guard(x.device());
  const at::TensorOptions wide = x.options().dtype(at::kDouble);
  const at::Tensor partials = at::empty({square_pieces(x.numel())}, wide);
  at::Tensor sum = at::empty({}, wide);
  kernel_table()->squares->sum({.element = *element_of(x),
                                .x = x.const_data_ptr(),
                                .n = x.numel(),
                                .partials = partials.mutable_data_ptr<double>(),
                                .sum = sum.mutable_data_ptr<double>()},
                               stream_of(x));
  return sum;
}

}  // namespace llmtrain::kernels
