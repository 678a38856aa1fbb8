// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for cross-entropy (kernels/cross_entropy.h), with raw pointers to contiguous device memory.
// Exponentials and sums are fp32; a row's sums have an order that depends on its width and on how its memory is aligned
// alone. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

struct CrossEntropyArguments {
  KernelElement element;
  void* logits = nullptr;                 // [rows, columns]
  const std::int64_t* targets = nullptr;  // [rows], ids of the whole vocabulary
  std::int64_t rows = 0;
  int columns = 0;
  std::int64_t first_column = 0;  // its id; a target whose column is not among these belongs to another slice
};

struct CrossEntropyKernels {
  // One kernel each, which adds no memory. Bytes per logit of size s, and FLOPs (of an exponential: 1):
  // the losses [rows]; s, 4.
  void (*forward)(const CrossEntropyArguments& arguments, float* losses, void* stream);
  // And logits becomes scale·(softmax − one_hot); 2 s, 7.
  void (*forward_backward)(const CrossEntropyArguments& arguments, float scale, float* losses, void* stream);
  // [rows, 3]: the largest logit (−∞ without columns), Σ exp(logit − largest), the target's logit or 0; s, 4.
  void (*statistics)(const CrossEntropyArguments& arguments, float* statistics, void* stream);
  // logits becomes its gradient by the statistics [rows, 3] of the whole rows; 2 s, 3.
  void (*backward)(const CrossEntropyArguments& arguments, const float* statistics, float scale, void* stream);
};

// Defined where kernels/cuda/cross_entropy.cu is compiled.
extern const CrossEntropyKernels cuda_cross_entropy_kernels;

}  // namespace llmtrain::kernels
