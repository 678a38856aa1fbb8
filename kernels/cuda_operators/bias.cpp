// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/bias.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <limits>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {

bool has_cuda_backward_bias(const at::Tensor& dy, const at::Tensor& dbias) {
  return has_kernels(dy) && dy.dim() == 2 && dy.size(0) > 0 && dy.size(1) <= std::numeric_limits<int>::max() &&
         dy.is_contiguous() && element_of(dbias) && dbias.is_contiguous();
}

at::Tensor cuda_bias_partials(const at::Tensor& matrix) {
  return at::empty({column_pieces(matrix.size(0)), matrix.size(1)}, matrix.options().dtype(at::kFloat));
}

void cuda_sum_bias_partials(const at::Tensor& partials, std::int64_t rows, const at::Tensor& dbias,
                            Accumulation accumulation) {
  const c10::DeviceGuard guard(dbias.device());
  kernel_table()->bias->sum_pieces({.gradient = *element_of(dbias),
                                    .partials = partials.const_data_ptr<float>(),
                                    .dbias = dbias.mutable_data_ptr(),
                                    .rows = rows,
                                    .width = static_cast<int>(dbias.numel()),
                                    .adds = accumulation == Accumulation::add},
                                   stream_of(dbias));
}

void cuda_backward_bias(const at::Tensor& dy, const at::Tensor& dbias, Accumulation accumulation) {
  const c10::DeviceGuard guard(dy.device());
  const at::Tensor partials = cuda_bias_partials(dy);
  kernel_table()->bias->sum_rows({.element = *element_of(dy),
                                  .dy = dy.const_data_ptr(),
                                  .partials = partials.mutable_data_ptr<float>(),
                                  .rows = dy.size(0),
                                  .width = static_cast<int>(dy.size(1))},
                                 stream_of(dy));
  cuda_sum_bias_partials(partials, dy.size(0), dbias, accumulation);
}

}  // namespace llmtrain::kernels
