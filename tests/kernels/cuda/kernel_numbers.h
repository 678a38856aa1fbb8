// SPDX-License-Identifier: Apache-2.0
// Numbers in memory for kernels that run on the processor.
#pragma once

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/kernel_element.h"
#include "tests/cuda_on_host/exact_array.h"

namespace llmtrain::kernels {

template <class T>
constexpr KernelElement kind_of = KernelElement::fp32;
template <>
inline constexpr KernelElement kind_of<__nv_bfloat16> = KernelElement::bf16;
template <>
inline constexpr KernelElement kind_of<__half> = KernelElement::fp16;

// Half the distance between two neighbours, relative to the power of two below them.
template <class T>
constexpr double rounding = 0x1p-24;
template <>
inline constexpr double rounding<__nv_bfloat16> = 0x1p-8;
template <>
inline constexpr double rounding<__half> = 0x1p-11;

// Memory that ends exactly behind its last element; `before` elements shift its beginning off the alignment of packs.
template <class T>
struct Numbers {
  explicit Numbers(std::size_t n, std::size_t before = 0) : size(n), first(before), values(before + n) {}

  T* data() const { return values.data() + first; }
  double operator[](std::size_t i) const { return static_cast<double>(widened(data()[i])); }
  void fill(std::mt19937& engine, float scale = 1) const {
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < size; ++i) data()[i] = narrowed<T>(scale * normal(engine));
  }
  std::vector<double> copied() const {
    std::vector<double> copy(size);
    for (std::size_t i = 0; i < size; ++i) copy[i] = (*this)[i];
    return copy;
  }
  bool has_overrun() const { return values.has_overrun(); }

  std::size_t size, first;
  test::ExactArray<T> values;
};

// !(a <= b), so that NaN is wrong.
inline bool differs(double got, double want, double bound) {
  return !(std::abs(got - want) <= bound * (1 + std::abs(want)));
}

}  // namespace llmtrain::kernels
