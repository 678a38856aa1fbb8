// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace llmtrain::kernels {

// Makes the singular values of a matrix nearly equal: with matrix = U·S·Vᵀ the result is U·S'·Vᵀ, S' between about 0.7
// and 1.2 where S is not far below its largest value, and 0 of 0. That is the quintic Newton-Schulz iteration of Muon
// (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024), with the coefficients of its
// authors: `steps` times
//   X ← (a·I + b·A + c·A²)·X,   A = X·Xᵀ
// from X = matrix ÷ its Frobenius norm, or with A = Xᵀ·X from the right where the matrix has more rows than columns.
//
// `matrix` [rows, columns] is contiguous, in fp32 (float64 in tests), and unchanged; `products` is the type in which
// the iteration multiplies and stores. Returns scale · the result, [rows, columns] in the matrix's type, contiguous.
// Takes steps·(4·s²·l + 2·s³) FLOPs for a short side s and a long side l. Blocking on the CPU; on a GPU four launches
// for the norm and the types of both ends and four for a step, for none of which the host waits.
at::Tensor orthogonalize(const at::Tensor& matrix, std::int64_t steps, at::ScalarType products, double scale = 1);

}  // namespace llmtrain::kernels
