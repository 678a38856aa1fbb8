// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// fp16 as its bits, beside std::uint16_t, which is bf16.
struct Half {
  std::uint16_t bits;
};

// One FP8 format's conversions of n elements, single-threaded. Element is float, std::uint16_t (bf16) or Half. Those
// that round also return the bits of the largest |x| as a float, which order as the magnitudes do; those of a NaN are
// the largest.
template <class Element>
struct Fp8Casts {
  // payload = x · scale, saturated and rounded to nearest, ties to even.
  std::uint32_t (*cast)(const Element* x, float scale, std::uint8_t* payload, std::int64_t n);
  // x = payload · inverse_scale
  void (*widen)(const std::uint8_t* payload, float inverse_scale, Element* x, std::int64_t n);
  // rounded = x cast and widened again; may be x.
  std::uint32_t (*round)(const Element* x, float scale, float inverse_scale, Element* rounded, std::int64_t n);
  // How many payloads are the format's largest number or its negative.
  std::int64_t (*count_largest)(const std::uint8_t* payload, std::int64_t n);
};

template <class Element>
struct Fp8Kernels {
  // The bits of the largest |x|, as above.
  std::uint32_t (*largest)(const Element* x, std::int64_t n);
  Fp8Casts<Element> e4m3, e5m2;
};

template <int level, class Element>
Fp8Kernels<Element> fp8_kernels_for();

}  // namespace llmtrain::kernels::vector
