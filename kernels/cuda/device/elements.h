// SPDX-License-Identifier: Apache-2.0
// Types of elements in kernels: arithmetic is fp32, and a narrow element is rounded once, to the nearest.
#pragma once

#include "kernels/cuda/device/language.h"
#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

__device__ __forceinline__ float widened(float x) { return x; }
__device__ __forceinline__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float widened(__half x) { return __half2float(x); }

template <class T>
__device__ __forceinline__ T narrowed(float x);
template <>
__device__ __forceinline__ float narrowed(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrowed(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ __half narrowed(float x) {
  return __float2half_rn(x);
}

// Calls work.operator()<T>() for the element's type, on the host.
template <class Work>
void with_type_of(KernelElement element, Work work) {
  switch (element) {
    case KernelElement::fp32:
      return work.template operator()<float>();
    case KernelElement::bf16:
      return work.template operator()<__nv_bfloat16>();
    case KernelElement::fp16:
      return work.template operator()<__half>();
  }
}

// Consecutive elements that are loaded and stored at once.
template <class T, int size>
struct alignas(size * sizeof(T)) Pack {
  T of[size];
};

// As many as 16 bytes hold.
template <class T>
constexpr int pack_size = static_cast<int>(16 / sizeof(T));

}  // namespace llmtrain::kernels
