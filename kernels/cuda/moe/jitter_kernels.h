// SPDX-License-Identifier: Apache-2.0
// The kernel of a GPU for the random factors of a router's inputs (kernels/moe/jitter.h), with raw pointers to
// contiguous device memory. It multiplies in float64 and rounds where the CPU does, so that results are the CPU's
// bitwise. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

// `runs` runs of `length` elements, one behind the other here; element i of run r has the index first + r·stride + i in
// the unsharded tensor.
struct JitterArguments {
  KernelElement element;    // of x
  const void* x = nullptr;  // [runs, length]
  float* out = nullptr;     // likewise; may be x where that is fp32
  std::int64_t length = 0;
  std::int64_t runs = 0;
  std::int64_t first = 0;
  std::int64_t stride = 0;
  std::uint64_t key = 0;
  double amplitude = 0;
};

struct JitterDeviceKernels {
  // One kernel. Bytes per element of size s: s + 4; FLOPs: 6 in float64, beside the integers of a word.
  void (*jitter)(const JitterArguments& arguments, void* stream);
};

// Defined where kernels/moe/jitter_cuda.cu is compiled.
extern const JitterDeviceKernels cuda_jitter_kernels;

}  // namespace llmtrain::kernels
