// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/fp8.h"

#include "core/base/small_float.h"
#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

// Integers instead of floats: their maximum needs no order of operations and no rule for NaN.
template <class Element>
std::uint32_t largest(const Element* x, std::int64_t n) {
  std::uint32_t bits = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t magnitude = as_bits(to_float(x[i])) & 0x7fffffffu;
    bits = bits < magnitude ? magnitude : bits;
  }
  return bits;
}

template <class Format, class Element>
void cast(const Element* __restrict x, float scale, std::uint8_t* __restrict payload, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) payload[i] = Format::narrow_saturating(to_float(x[i]) * scale);
}

template <class Format, class Element>
void widen(const std::uint8_t* __restrict payload, float inverse_scale, Element* __restrict x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) store(x[i], Format::widen(payload[i]) * inverse_scale);
}

template <class Format, class Element>
void round(const Element* x, float scale, float inverse_scale, Element* rounded, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    store(rounded[i], Format::widen(Format::narrow_saturating(to_float(x[i]) * scale)) * inverse_scale);
}

template <class Format, class Element>
constexpr Fp8Casts<Element> casts_of() {
  return {cast<Format, Element>, widen<Format, Element>, round<Format, Element>};
}

template <class Element>
constexpr Fp8Kernels<Element> kernels_of() {
  return {largest<Element>, casts_of<Float8E4M3, Element>(), casts_of<Float8E5M2, Element>()};
}

}  // namespace

template <>
Fp8Kernels<float> fp8_kernels_for<LLMTRAIN_VECTOR_LEVEL, float>() {
  return kernels_of<float>();
}

template <>
Fp8Kernels<std::uint16_t> fp8_kernels_for<LLMTRAIN_VECTOR_LEVEL, std::uint16_t>() {
  return kernels_of<std::uint16_t>();
}

}  // namespace llmtrain::kernels::vector
