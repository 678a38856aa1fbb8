// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/gemm.h"

namespace llmtrain::kernels {

// Gradients of biases (kernels/gemm.h) on a GPU with the kernels of kernels/cuda/bias_kernels.h.

// Whether they take them: dy [rows, width] and dbias [width] of fp32, bf16 or fp16, without gaps; at least one row.
bool has_cuda_backward_bias(const at::Tensor& dy, const at::Tensor& dbias);

// Two kernels, with one fp32 number beside per column and piece of rows.
void cuda_backward_bias(const at::Tensor& dy, const at::Tensor& dbias, Accumulation accumulation);

// New memory for the sums of a matrix's pieces, and one kernel that makes dbias from them.
at::Tensor cuda_bias_partials(const at::Tensor& matrix);
void cuda_sum_bias_partials(const at::Tensor& partials, std::int64_t rows, const at::Tensor& dbias,
                            Accumulation accumulation);

}  // namespace llmtrain::kernels
