// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain::kernels {

enum class Fp8Format { e4m3, e5m2 };

// The largest number of the format.
constexpr float largest_of(Fp8Format format) { return format == Fp8Format::e4m3 ? 448 : 57344; }

// 448 is 1.75 · 2⁸ and 57,344 is 1.75 · 2¹⁵.
constexpr int top_exponent(Fp8Format format) { return format == Fp8Format::e4m3 ? 8 : 15; }

// Scales beyond 2^±100 could push the smallest or the largest payload out of fp32's range when it is widened.
constexpr int largest_scale_exponent = 100;

}  // namespace llmtrain::kernels
