// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for swiglu (kernels/activation.h), with raw pointers to device memory. Arithmetic is
// fp32, and each result is rounded once. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

struct SwigluArguments {
  KernelElement element;
  const void* dy = nullptr;  // [rows, width], of the backward
  // [rows, width] each, whose rows are `stride` elements apart: the width where they lie apart, or twice it where `up`
  // goes on where `gate` ends.
  const void* gate = nullptr;
  const void* up = nullptr;
  void* y = nullptr;      // [rows, width], of the forward
  void* dgate = nullptr;  // of the backward, as gate and up lie
  void* dup = nullptr;
  std::int64_t rows = 0, stride = 0;
  int width = 0;
};

struct ActivationKernels {
  // One kernel. Bytes per element of y of size s: 3 s; FLOPs: 5.
  void (*swiglu_forward)(const SwigluArguments& arguments, void* stream);
  // One kernel. Bytes per element of y: 5 s; FLOPs: 11.
  void (*swiglu_backward)(const SwigluArguments& arguments, void* stream);
};

// Defined where kernels/cuda/activation.cu is compiled.
extern const ActivationKernels cuda_activation_kernels;

}  // namespace llmtrain::kernels
