// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/cuda/fp8/fp8_kernels.h"
#include "kernels/fp8/fp8.h"
#include "kernels/fp8/stored_matrix.h"

namespace llmtrain::kernels {

// FP8 (kernels/fp8/fp8.h) on a GPU with the kernels of kernels/cuda/fp8/fp8_kernels.h. Results are contiguous.

// Whether they take x: contiguous, in fp32, bf16 or fp16.
bool has_cuda_fp8(const at::Tensor& x);
// Whether they take codes.
bool has_cuda_codes(const at::Tensor& payload);

// The largest magnitudes of the rows into which x is divided, fp32 [rows].
at::Tensor cuda_largest(const at::Tensor& x, std::int64_t rows);
// Into `payload`, contiguous.
void cuda_cast(const at::Tensor& x, const at::Tensor& scale, Fp8Format format, const at::Tensor& payload);
// Returns largest_magnitude(x) as well.
at::Tensor cuda_measured_cast(const at::Tensor& x, const at::Tensor& scale, Fp8Format format,
                              const at::Tensor& payload);
ShownFp8 cuda_shown_cast(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);
// `rounded` may be x.
void cuda_round(const at::Tensor& x, const at::Tensor& scale, Fp8Format format, const at::Tensor& rounded);
at::Tensor cuda_measured_round(const at::Tensor& x, const at::Tensor& scale, Fp8Format format,
                               const at::Tensor& rounded);
void cuda_widen(const at::Tensor& payload, const at::Tensor& scale, Fp8Format format, const at::Tensor& x);
TurnedFp8 cuda_cast_both_ways(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);
ShownFp8 cuda_shown_cast_both_ways(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);
at::Tensor cuda_cast_transposed(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);
// Casts to E4M3 of what is kept in fp16, as Fp8Stored has it.
at::Tensor cuda_cast(const StoredMatrix& matrix, const at::Tensor& scale);
ShownFp8 cuda_shown_cast(const StoredMatrix& matrix, const at::Tensor& scale);
at::Tensor cuda_cast_transposed(const StoredMatrix& matrix, const at::Tensor& scale);
// The codes [rows, columns] the other way round, [columns, stride], with zeros from the number of rows to the stride.
at::Tensor cuda_turned(const at::Tensor& payload, std::int64_t stride);
// fp8_scale() of numbers that may lie in any way; every GPU has it.
at::Tensor cuda_fp8_scale(const at::Tensor& largest, Fp8Format format);
at::Tensor cuda_saturated_count(const at::Tensor& payload, Fp8Format format);

}  // namespace llmtrain::kernels
