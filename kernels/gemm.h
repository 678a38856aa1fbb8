// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace llmtrain::kernels {

// The three matrix products of a linear layer. Matrices are contiguous; weights are [output, input] as everywhere. On
// the CPU in fp32 and bf16 they run in oneDNN where it can be loaded, else in LibTorch, and linear() of one row, or of
// SeparateRows (kernels/separate_rows.h), in a loop of its own; fp16 is widened to fp32 there, and the result rounded.
// Products accumulate in fp32. Blocking on the CPU; ordered on the current stream on a GPU.

// What a gradient's memory holds beforehand: nothing yet (the step's first micro-batch), or a sum to add to.
enum class Accumulation { overwrite, add };

// y[T, out] = x[T, in] · weightᵀ (+ bias), in x's dtype.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias);

// dx[T, in] = dy[T, out] · weight, in dy's dtype.
at::Tensor linear_backward_input(const at::Tensor& dy, const at::Tensor& weight);

// dweight[out, in] = or += dyᵀ · x. dweight may be wider than the operands (bf16 operands, fp32 sum).
void linear_backward_weight(const at::Tensor& dy, const at::Tensor& x, at::Tensor& dweight, Accumulation accumulation);

// The same products for the rows of a group whose number differs from call to call, such as the tokens of an expert:
// what oneDNN generates for a shape is kept, and here it serves any number of rows. Operands and results may be columns
// of wider matrices; weights are contiguous. Without rows nothing is read, and what is overwritten becomes zero.

// y[n, out] = x[n, in] · weightᵀ (+ bias).
void group_linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias, at::Tensor y);
// dx[n, in] = or += dy[n, out] · weight.
void group_backward_input(const at::Tensor& dy, const at::Tensor& weight, at::Tensor dx, Accumulation accumulation);
// dweight[out, in] = or += dyᵀ · x.
void group_backward_weight(const at::Tensor& dy, const at::Tensor& x, at::Tensor dweight, Accumulation accumulation);

// dbias[out] = or += column sums of dy, in a fixed order.
void linear_backward_bias(const at::Tensor& dy, at::Tensor& dbias, Accumulation accumulation);

}  // namespace llmtrain::kernels
