// SPDX-License-Identifier: Apache-2.0
// The kernel of a GPU for dropout (kernels/random/dropout.h), with raw pointers to contiguous device memory. It makes
// the CPU's masks and rounds where the CPU does, so that results are the CPU's bitwise. LibTorch and CUDA are not
// needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

// `runs` runs of `length` elements, one behind the other here; element i of run r has the index first + r·stride + i in
// the unsharded tensor.
struct DropoutArguments {
  KernelElement element;
  const void* x = nullptr;         // [runs, length]
  const void* residual = nullptr;  // likewise, or null: added to what dropout leaves of x
  void* out = nullptr;             // likewise; may be x
  std::int64_t length = 0;
  std::int64_t runs = 0;
  std::int64_t first = 0;
  std::int64_t stride = 0;
  std::uint64_t key = 0;
  std::uint32_t threshold = 0;  // words below it drop their element
  float scale = 1;              // of the others
};

struct DropoutDeviceKernels {
  // One kernel. Bytes per element of size s: 2 s (3 s with a residual); FLOPs: 1 (2), beside the integers of a word.
  void (*drop)(const DropoutArguments& arguments, void* stream);
};

// Defined where kernels/cuda/dropout.cu is compiled.
extern const DropoutDeviceKernels cuda_dropout_kernels;

}  // namespace llmtrain::kernels
