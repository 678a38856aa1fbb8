// SPDX-License-Identifier: Apache-2.0
// The kernel of a GPU for AdamW (kernels/adamw.h), with raw pointers to device memory without gaps. LibTorch and CUDA
// are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"
#include "kernels/cuda/optimizer/adamw_constants.h"

namespace llmtrain::kernels {

struct AdamwArguments {
  float* weights = nullptr;  // [n], as all others
  float* m = nullptr;
  float* v = nullptr;
  KernelElement gradient = KernelElement::fp32;
  const void* gradients = nullptr;
  KernelElement compute_weight = KernelElement::bf16;  // bf16 or fp16
  void* compute_weights = nullptr;                     // or null
  std::int64_t n = 0;
  // Tensors whose weights decay and others alternate: from each of the elements on that `changes` on the host names, in
  // ascending order, weights do that did not before, or the other way round.
  bool first_decays = true;
  const std::int64_t* changes = nullptr;
  std::int64_t change_count = 0;
};

struct AdamwDeviceKernels {
  // One kernel, or more where `changes` are more than its parameters hold, with the bits of a processor's loop
  // (kernels/vector) where that multiplies and adds at once. Bytes per element: 24, a gradient and a compute weight;
  // FLOPs: 13.
  void (*step)(const AdamwArguments& arguments, const AdamwConstants& constants, void* stream);
};

// Defined where kernels/cuda/optimizer/adamw.cu is compiled.
extern const AdamwDeviceKernels cuda_adamw_kernels;

}  // namespace llmtrain::kernels
