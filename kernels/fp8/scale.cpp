// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8/scale.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/fp8/fp8_cuda.h"

namespace llmtrain::kernels {
namespace {

// Where fp32 keeps its exponent.
constexpr std::int64_t exponent_bits = 0x7f800000;

// The power of two in fp32's bits, without the mantissa: 0 of subnormal numbers.
at::Tensor power_of(at::Tensor bits) { return bits.bitwise_and_(exponent_bits).view(at::kFloat); }

// 2^top ÷ power, which is one of two, from 2⁻¹⁰⁰ to 2^most; in place.
at::Tensor quotient_(at::Tensor power, int top, int most) {
  power.clamp_(std::ldexp(1.0, top - most), std::ldexp(1.0, top + largest_scale_exponent));
  return power.reciprocal_().mul_(std::ldexp(1.0, top));
}

}  // namespace

at::ScalarType fp8_type(Fp8Format format) { return format == Fp8Format::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2; }

// With largest = m · 2ᵉ, 1 ≤ m < 2, the quotient's exponent is 8 − e, or one less where m is above 1.75. Without a
// logarithm, which could round to the next integer.
float fp8_scale(float largest, Fp8Format format) {
  // The comparison is false for NaN too.
  if (!(largest <= std::numeric_limits<float>::max())) return std::numeric_limits<float>::quiet_NaN();
  if (largest == 0) return 1;
  int exponent_and_one = 0;
  const float half_mantissa = std::frexp(largest, &exponent_and_one);
  const int exponent = top_exponent(format) + 1 - exponent_and_one - (half_mantissa > 0.875F ? 1 : 0);
  return std::ldexp(1.0F, std::clamp(exponent, -largest_scale_exponent, largest_scale_exponent));
}

at::Tensor fp8_scale(const at::Tensor& largest, Fp8Format format) {
  if (!largest.is_cpu()) return cuda_fp8_scale(largest, format);
  at::Tensor scales = largest.clone();
  auto* values = scales.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < scales.numel(); ++i) values[i] = fp8_scale(values[i], format);
  return scales;
}

// What is not finite has no difference from itself.
at::Tensor shown_scale(const at::Tensor& scale, const at::Tensor& largest) { return largest.sub(largest).add_(scale); }

at::Tensor power_below(const at::Tensor& x) {
  return power_of(x.view(at::kInt).clone()).clamp_min_(std::numeric_limits<float>::min());
}

at::Tensor scale_below(int top, const at::Tensor& largest, int most) {
  const at::Tensor scale = quotient_(power_of(largest.view(at::kInt).clone()), top - 1, most);
  const at::Tensor is_plain = largest.gt(0).logical_and_(largest.le(std::numeric_limits<float>::max()));
  return at::where(is_plain, scale, at::Scalar(1.0F));
}

}  // namespace llmtrain::kernels
