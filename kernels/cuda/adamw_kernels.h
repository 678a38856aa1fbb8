// SPDX-License-Identifier: Apache-2.0
// The kernel of a GPU for AdamW (kernels/adamw.h), with raw pointers to device memory without gaps. LibTorch and CUDA
// are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

// The numbers of a step, each computed in float64 and rounded once.
struct AdamwFactors {
  float gradient_scale;
  float decay;  // 1 − learning rate · weight decay
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float root_of_correction;  // √(1 − beta2^step)
  float eps;
  float step_size;  // learning rate / (1 − beta1^step)
};

struct AdamwArguments {
  float* weights = nullptr;  // [n], as all others
  float* m = nullptr;
  float* v = nullptr;
  KernelElement gradient = KernelElement::fp32;
  const void* gradients = nullptr;
  KernelElement compute_weight = KernelElement::bf16;  // bf16 or fp16
  void* compute_weights = nullptr;                     // or null
  std::int64_t n = 0;
};

struct AdamwDeviceKernels {
  // One kernel, with the bits of a processor's loop (kernels/vector) where that multiplies and adds at once. Bytes
  // per element: 24, a gradient and a compute weight; FLOPs: 13.
  void (*step)(const AdamwArguments& arguments, const AdamwFactors& factors, void* stream);
};

// Defined where kernels/cuda/adamw.cu is compiled.
extern const AdamwDeviceKernels cuda_adamw_kernels;

}  // namespace llmtrain::kernels
