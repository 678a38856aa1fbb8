// SPDX-License-Identifier: Apache-2.0
// The kernel of a GPU that gives the gradients of experts' weights what their products are
// (kernels/moe/grouped_products.h), with raw pointers to contiguous device memory. LibTorch and CUDA are not needed
// here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

struct GroupGradientArguments {
  KernelElement element;           // of the products
  KernelElement gradient;          // fp32, or that of the products
  const void* products = nullptr;  // [experts, size]; not read of experts without rows, which have products of 0
  const int* ends = nullptr;       // [experts]: behind their rows
  void* gradients = nullptr;       // [experts, size]
  int experts = 0;                 // fewer than 2¹⁶
  std::int64_t size = 0;
  bool adds = false;  // to what the gradients are
};

struct GroupGradientKernels {
  // One kernel. Bytes: the products once, the gradients once, or twice where it adds. Sums are fp32, rounded once.
  void (*store)(const GroupGradientArguments& arguments, void* stream);
};

// Defined where kernels/moe/group_gradients_cuda.cu is compiled.
extern const GroupGradientKernels cuda_group_gradient_kernels;

}  // namespace llmtrain::kernels
