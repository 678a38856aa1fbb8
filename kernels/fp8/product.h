// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/gemm.h"

namespace llmtrain::kernels {

// The three products of a linear layer of FP8 numbers, on GPUs with units for them (from compute capability 8.9 on),
// which CPUs and older GPUs lack: there operands are widened and multiplied by gemm.h. They accumulate in fp32 and
// round once, to `type`. Ordered on the current stream. Operands of which a side is no multiple of 16, or that lie
// askew in memory, are copied with zeros around them, since the library wants neither.

// value = payload / scale: payload [rows, columns] in E4M3 or E5M2, contiguous; scale fp32 [1] on its device.
struct Fp8Matrix {
  at::Tensor payload;
  at::Tensor scale;
  at::Tensor turned{};  // the payload the other way round, where it was cast so (kernels/fp8/fp8.h)
};

// Whether these functions, and not gemm.h, multiply FP8 numbers of this device. The first call of a process tries it on
// the current GPU, as which all of its GPUs count.
bool multiplies_fp8_on(const at::Device& device);

// y[T, out] = x[T, in] · weightᵀ (+ bias, of the type `type`), weight [out, in].
at::Tensor fp8_linear(const Fp8Matrix& x, const Fp8Matrix& weight, const std::optional<at::Tensor>& bias,
                      at::ScalarType type);
// dx[T, in] = dy[T, out] · weight, of which `transposed` [in, out] is the transposed matrix.
at::Tensor fp8_backward_input(const Fp8Matrix& dy, const Fp8Matrix& transposed, at::ScalarType type);
// dweight[out, in] = or += dyᵀ · x.
void fp8_backward_weight(const Fp8Matrix& dy, const Fp8Matrix& x, at::Tensor& dweight, Accumulation accumulation);

}  // namespace llmtrain::kernels
