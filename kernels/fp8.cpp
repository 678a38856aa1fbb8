// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/vector/fp8.h"
#include "kernels/vector/level.h"
#include "kernels/vector_dispatch.h"

namespace llmtrain::kernels {
namespace {

// Elements per thread below which starting another thread costs more than it saves.
constexpr std::int64_t casts_per_thread = 16384;
// Scales beyond 2^±100 could push the smallest or the largest payload out of fp32's range when it is widened.
constexpr int largest_exponent = 100;

template <class Element>
vector::Fp8Kernels<Element> fp8_loops() {
  return vector::at_level([]<int level> { return vector::fp8_kernels_for<level, Element>(); });
}

template <class Element>
vector::Fp8Casts<Element> casts_of(Fp8Format format) {
  return format == Fp8Format::e4m3 ? fp8_loops<Element>().e4m3 : fp8_loops<Element>().e5m2;
}

template <class Element>
at::Tensor vector_largest(const at::Tensor& x) {
  const std::int64_t n = x.numel(), pieces = (n + casts_per_thread - 1) / casts_per_thread;
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(pieces));
  const auto kernel = fp8_loops<Element>().largest;
  at::parallel_for(0, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * casts_per_thread;
      bits[static_cast<std::size_t>(i)] = kernel(elements<Element>(x) + first, std::min(casts_per_thread, n - first));
    }
  });
  at::Tensor largest = at::zeros({1}, at::kFloat);
  if (!bits.empty()) *largest.mutable_data_ptr<float>() = std::bit_cast<float>(std::ranges::max(bits));
  return largest;
}

template <class Body>
void over_elements(const at::Tensor& x, Body body) {
  at::parallel_for(0, x.numel(), casts_per_thread,
                   [&](std::int64_t begin, std::int64_t end) { body(begin, end - begin); });
}

// `rounded` may be x.
void vector_round(const at::Tensor& x, const at::Tensor& scale, Fp8Format format, const at::Tensor& rounded) {
  with_element_of(x, [&]<class Element> {
    const auto* values = elements<Element>(x);
    auto* results = mutable_elements<Element>(rounded);
    over_elements(
        x, [&, kernel = casts_of<Element>(format).round, factor = *scale.const_data_ptr<float>()](
               std::int64_t first, std::int64_t n) { kernel(values + first, factor, 1 / factor, results + first, n); });
  });
}

at::Tensor as_payload(const at::Tensor& scaled, Fp8Format format) {
  // LibTorch's own cast makes NaN of what is too large for E4M3 and infinity of what is too large for E5M2.
  return scaled.clamp(-largest_of(format), largest_of(format)).to(fp8_type(format));
}

}  // namespace

at::ScalarType fp8_type(Fp8Format format) { return format == Fp8Format::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2; }

at::Tensor largest_magnitude(const at::Tensor& x) {
  if (is_vector_array(x)) return with_element_of(x, [&]<class Element> { return vector_largest<Element>(x); });
  if (x.numel() == 0) return at::zeros({1}, x.options().dtype(at::kFloat));
  return at::amax(x.abs()).to(at::kFloat).view({1});
}

// 448 is 1.75 · 2⁸ and 57,344 is 1.75 · 2¹⁵: with largest = m · 2ᵉ, 1 ≤ m < 2, the quotient's exponent is 8 − e, or one
// less where m is above 1.75. Without a logarithm, which could round to the next integer.
float fp8_scale(float largest, Fp8Format format) {
  // The comparison is false for NaN too.
  if (!(largest <= std::numeric_limits<float>::max())) return std::numeric_limits<float>::quiet_NaN();
  if (largest == 0) return 1;
  int exponent_and_one = 0;
  const float half_mantissa = std::frexp(largest, &exponent_and_one);
  const int exponent = (format == Fp8Format::e4m3 ? 8 : 15) + 1 - exponent_and_one - (half_mantissa > 0.875F ? 1 : 0);
  return std::ldexp(1.0F, std::clamp(exponent, -largest_exponent, largest_exponent));
}

at::Tensor fp8_scale(const at::Tensor& largest, Fp8Format format) {
  at::Tensor scales = largest.to(at::kCPU, false, true);
  auto* values = scales.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < scales.numel(); ++i) values[i] = fp8_scale(values[i], format);
  return scales.to(largest.device());
}

at::Tensor cast_to_fp8(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (!is_vector_array(x)) return as_payload(x.mul(scale), format);
  at::Tensor payload = at::empty(x.sizes(), x.options().dtype(fp8_type(format)));
  with_element_of(x, [&]<class Element> {
    const auto* values = elements<Element>(x);
    auto* bytes = static_cast<std::uint8_t*>(payload.data_ptr());
    over_elements(x, [&, kernel = casts_of<Element>(format).cast, factor = *scale.const_data_ptr<float>()](
                         std::int64_t first, std::int64_t n) { kernel(values + first, factor, bytes + first, n); });
  });
  return payload;
}

at::Tensor widen_fp8(const at::Tensor& payload, const at::Tensor& scale, at::ScalarType type) {
  at::Tensor x = at::empty(payload.sizes(), payload.options().dtype(type));
  widen_fp8_into(payload, scale, x);
  return x;
}

void widen_fp8_into(const at::Tensor& payload, const at::Tensor& scale, const at::Tensor& x) {
  // The scale is a power of two: its reciprocal and the products with it are exact.
  if (!is_vector_array(x) || !payload.is_contiguous()) {
    x.copy_(payload.to(at::kFloat).div(scale));
    return;
  }
  const Fp8Format format = payload.scalar_type() == at::kFloat8_e4m3fn ? Fp8Format::e4m3 : Fp8Format::e5m2;
  with_element_of(x, [&]<class Element> {
    const auto* bytes = static_cast<const std::uint8_t*>(payload.const_data_ptr());
    auto* values = mutable_elements<Element>(x);
    over_elements(x, [&, kernel = casts_of<Element>(format).widen, factor = 1 / *scale.const_data_ptr<float>()](
                         std::int64_t first, std::int64_t n) { kernel(bytes + first, factor, values + first, n); });
  });
}

void round_to_fp8_(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (is_vector_array(x)) return vector_round(x, scale, format, x);
  x.copy_(widen_fp8(cast_to_fp8(x, scale, format), scale, x.scalar_type()));
}

at::Tensor round_to_fp8(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (!is_vector_array(x)) return widen_fp8(cast_to_fp8(x, scale, format), scale, x.scalar_type());
  at::Tensor rounded = at::empty_like(x);
  vector_round(x, scale, format, rounded);
  return rounded;
}

}  // namespace llmtrain::kernels
