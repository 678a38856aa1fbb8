// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for GELU (kernels/activation.h), with raw pointers to contiguous device memory. Arithmetic is
// fp32, and each result is rounded once. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/column_rows.h"
#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

enum class GeluForm { exact, tanh };

struct GeluArguments {
  KernelElement element;
  GeluForm form;
  const void* dy = nullptr;   // [rows, width], of the backward
  const void* x = nullptr;    // [rows, width]
  void* out = nullptr;        // [rows, width]: y, or dx
  float* partials = nullptr;  // of the backward: column_pieces(rows) · width sums of dx (bias_kernels.h), or null
  std::int64_t rows = 0;
  int width = 0;
};

struct GeluKernels {
  // One kernel. Bytes per element of size s: 2 s; FLOPs: 8 (tanh).
  void (*forward)(const GeluArguments& arguments, void* stream);
  // One kernel, which also sums pieces of the rows that it writes where they are wanted. Bytes per element: 3 s; FLOPs:
  // 16 (tanh).
  void (*backward)(const GeluArguments& arguments, void* stream);
};

// Defined where kernels/cuda/gelu.cu is compiled.
extern const GeluKernels cuda_gelu_kernels;

}  // namespace llmtrain::kernels
