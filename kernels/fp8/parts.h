// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "kernels/cuda/fp8/flat_part.h"

namespace llmtrain::kernels {

// Many tensors in small types, which lie in flat arrays without gaps (value = payload / scale, kernels/fp8/fp8.h): on a
// GPU what is done to all of them is one launch, or a few where they are hundreds. Numbers and scales are arrays
// without gaps, in which FlatPart::number names those of a part; scales are powers of two. FP8 is E4M3, and x in fp32,
// bf16 or fp16. Results have the same bits on every device. The host waits for no GPU.

// largest[number], fp32 and not below 0, becomes the larger of itself and a part's largest |x|; NaN where x has one.
void largest_of_parts(const at::Tensor& x, std::span<const FlatPart> parts, const at::Tensor& largest);

// payload = x / x_scale · scale, saturated and rounded to nearest; x_scale is 1 where `x_scales` is undefined.
void cast_parts_to_fp8(const at::Tensor& x, const at::Tensor& x_scales, const at::Tensor& scales,
                       std::span<const FlatPart> parts, const at::Tensor& payload);

// x = payload / scale in x's type, of a payload in E4M3 or fp16.
void widen_parts(const at::Tensor& payload, const at::Tensor& scales, std::span<const FlatPart> parts,
                 const at::Tensor& x);

// How many elements of each number's parts are of the format's largest magnitude: fp32 [numbers] on the payload's
// device.
at::Tensor saturated_counts(const at::Tensor& payload, std::span<const FlatPart> parts, std::int64_t numbers);

// Σ (payload / scale)², a float64 tensor without axes where the payload is. Sums of 16,384 elements are exact, and all
// are where the scales are within a factor of about 2⁵, so that devices may differ by the rounding of a sum.
at::Tensor squares_of_parts(const at::Tensor& payload, const at::Tensor& scales, std::span<const FlatPart> parts);

}  // namespace llmtrain::kernels
