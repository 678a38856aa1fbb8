// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/language.h"

namespace llmtrain::kernels {

// Copies 16 bytes from global to shared memory without registers, both aligned to 16. They are there after
// async_wait<0>() of this thread; for other threads after a barrier behind it.
__device__ __forceinline__ void async_copy_16(void* shared, const void* global) {
#ifdef __CUDA_ARCH__
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(to), "l"(global) : "memory");
#elif !defined(__CUDACC__)
  cuda_on_host::copy_later({shared, *static_cast<const uint4*>(global)}, cuda_on_host::Place::here());
#endif
}

__device__ __forceinline__ void async_commit() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#elif !defined(__CUDACC__)
  cuda_on_host::commit_copies();
#endif
}

// Waits until all but the newest `left` groups of this thread have arrived.
template <int left>
__device__ __forceinline__ void async_wait() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_group %0;\n" ::"n"(left) : "memory");
#elif !defined(__CUDACC__)
  for (cuda_on_host::LateCopy copy{}; cuda_on_host::take_copy(left, copy);) *static_cast<uint4*>(copy.to) = copy.value;
#endif
}

}  // namespace llmtrain::kernels
