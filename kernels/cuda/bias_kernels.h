// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for gradients of biases (kernels/gemm.h), with raw pointers to contiguous device memory. Sums
// are fp32, in an order that depends on the shape alone. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/column_rows.h"
#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

struct BiasSumArguments {
  KernelElement gradient;           // of dbias
  const float* partials = nullptr;  // [column_pieces(rows), width]
  void* dbias = nullptr;            // [width]
  std::int64_t rows = 0;            // at least one
  int width = 0;
  bool adds = false;  // to what dbias holds; else that is not read
};

struct BiasArguments {
  KernelElement element;
  const void* dy = nullptr;   // [rows, width]
  float* partials = nullptr;  // scratch, column_pieces(rows) · width numbers
  std::int64_t rows = 0;
  int width = 0;
};

struct BiasKernels {
  // One kernel: the sums of pieces of rows. Bytes per element of size s: s; FLOPs: 1.
  void (*sum_rows)(const BiasArguments& arguments, void* stream);
  // One kernel: the gradient from the pieces' sums.
  void (*sum_pieces)(const BiasSumArguments& arguments, void* stream);
};

// Defined where kernels/cuda/bias.cu is compiled.
extern const BiasKernels cuda_bias_kernels;

}  // namespace llmtrain::kernels
