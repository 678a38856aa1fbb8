// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/fp8/scale.h"

namespace llmtrain::kernels {

// FP8 with a scale per tensor (Micikevicius et al., arXiv 2209.05433): value = payload / scale. E4M3 (largest 448) has
// the precision that weights and activations need, E5M2 (largest 57,344) the range that gradients need (section 3.2
// there). Scales are powers of two, so that they round nothing and two ranks' scales differ only in what underflows.
//
// x is contiguous, in fp32, bf16 or fp16 (vectorised on the CPU, kernels of our own on a GPU), or in any floating type.
// Scales are fp32 [1] on x's device, or [rows, 1] where each row of a matrix x has one. Blocking on the CPU; ordered on
// the current stream on a GPU, whose results have the same bits.

// The largest |x|, 0 of no elements; NaN where x has one. fp32 [1] on x's device.
at::Tensor largest_magnitude(const at::Tensor& x);
// The same of each row of a matrix, [rows, 1].
at::Tensor largest_row_magnitudes(const at::Tensor& x);

// x · scale, saturated and rounded to nearest, ties to even: an FP8 tensor of x's shape. NaN stays NaN.
at::Tensor cast_to_fp8(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);
// The same into `payload`, contiguous and of as many elements.
void cast_to_fp8_into(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& payload);
// The same of a matrix with a scale [1], and on a GPU in the same pass the codes the other way round, as
// fp8_backward_weight() takes them (kernels/fp8/product.h): [columns, rows up to a multiple of fp8_turned_rows], with
// zeros behind the rows. Elsewhere `turned` is undefined.
constexpr std::int64_t fp8_turned_rows = 16;
struct TurnedFp8 {
  at::Tensor values;
  at::Tensor turned;
};
TurnedFp8 cast_to_fp8_both_ways(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);
// That of a matrix [rows, columns] the other way round: [columns, rows], contiguous.
at::Tensor cast_to_fp8_transposed(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);
// payload / scale in `type`, which is exact in every type that training computes in.
at::Tensor widen_fp8(const at::Tensor& payload, const at::Tensor& scale, at::ScalarType type);
// The same into x, of as many elements, in its type.
void widen_fp8_into(const at::Tensor& payload, const at::Tensor& scale, const at::Tensor& x);
// Both in one pass: the values of x that FP8 can represent, in x's type.
at::Tensor round_to_fp8(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);
// The same in place.
void round_to_fp8_(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);

// How many elements are of the format's largest magnitude, to which casts saturate: on the host, which waits for it,
// and as fp32 [1] on the payload's device.
std::int64_t count_saturated(const at::Tensor& payload);
at::Tensor saturated_count(const at::Tensor& payload);

// Where the scale does not follow from x, a cast also finds x's largest magnitude in the same pass.
struct MeasuredFp8 {
  at::Tensor values;
  at::Tensor largest;  // largest_magnitude(x)
};
MeasuredFp8 cast_and_measure(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);
MeasuredFp8 round_and_measure(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);
// In place; returns what was the largest magnitude.
at::Tensor round_and_measure_(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);

// cast_and_measure() with a scale [1] such that what is not finite in x shows: all values and the scale are NaN then,
// where infinities would saturate. On a GPU the host does not learn of it.
struct ShownFp8 {
  at::Tensor values;
  at::Tensor scale;    // shown_scale()
  at::Tensor largest;  // largest_magnitude(x)
  at::Tensor turned{};
};
ShownFp8 cast_and_show(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);
// With `turned` as above.
ShownFp8 cast_and_show_both_ways(const at::Tensor& x, const at::Tensor& scale, Fp8Format format);

}  // namespace llmtrain::kernels
