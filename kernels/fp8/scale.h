// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>

#include "kernels/cuda/device/fp8_format.h"

namespace llmtrain::kernels {

at::ScalarType fp8_type(Fp8Format format);

// The larger of two largest magnitudes, of which a NaN is the largest of all.
inline double larger_magnitude(double a, double b) { return std::isnan(a) || a > b ? a : b; }

// Scales of tensors in small types: value = payload / scale. Tensors below are fp32, of any shape, and results are on
// their device, of which the host waits for nothing; the bits are the same on every device.

// The largest power of two that keeps `largest` within the format; 1 for 0. NaN where `largest` is not finite: the
// product then shows that, where a saturated infinity would hide it.
at::Tensor fp8_scale(const at::Tensor& largest, Fp8Format format);
float fp8_scale(float largest, Fp8Format format);
// The scale where `largest`, of what it is about to scale, is finite, else NaN; of one shape.
at::Tensor shown_scale(const at::Tensor& scale, const at::Tensor& largest);

// The largest power of two that is at most x, which is positive.
at::Tensor power_below(const at::Tensor& x);
// The power of two that places a largest magnitude between 2^(top − 1) and 2^top, from 2⁻¹⁰⁰ to 2^most, so that the
// payload's smallest number stays in fp32's range. 1 of what is 0 or not finite, which so stays visible in the payload.
at::Tensor scale_below(int top, const at::Tensor& largest, int most);

}  // namespace llmtrain::kernels
