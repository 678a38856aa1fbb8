// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU between tokens and the rows of their experts (kernels/moe/dispatch.h), with raw pointers to
// contiguous device memory. Arithmetic is fp32, each result is rounded once, and sums over a token's choices have their
// order. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

// Rows of the choices [tokens, choices], −1 of those without one; no row is that of two. Rows without a choice are
// neither read nor written.
struct ChoiceRows {
  const std::int64_t* row_of = nullptr;
  std::int64_t tokens = 0;
  std::int64_t rows = 0;
  int choices = 0;  // of a token
  int width = 0;    // of a row and of a token's
};

struct DispatchArguments {
  KernelElement element;
  ChoiceRows map;
  const void* x = nullptr;  // [tokens, width]
  void* rows = nullptr;     // [rows, width]
};

struct CombineArguments {
  KernelElement element;
  ChoiceRows map;
  const void* rows = nullptr;    // [rows, width]
  const float* gates = nullptr;  // [tokens, choices], or null: all 1
  void* y = nullptr;             // [tokens, width]
};

struct CombineBackwardArguments {
  KernelElement element;
  ChoiceRows map;
  const void* dy = nullptr;      // [tokens, width]
  const void* rows = nullptr;    // [rows, width]
  const float* gates = nullptr;  // [tokens, choices]
  void* drows = nullptr;         // [rows, width]
  float* dgates = nullptr;       // [tokens, choices]
};

struct DispatchDeviceKernels {
  // One kernel. Bytes: x once, the rows once.
  void (*dispatch)(const DispatchArguments& arguments, void* stream);
  // One kernel. Bytes: the rows once, y once; FLOPs per element of a row: 2.
  void (*combine)(const CombineArguments& arguments, void* stream);
  // One kernel. Bytes: dy once for every four choices of a token, the rows twice; FLOPs per element of a row: 3.
  void (*combine_backward)(const CombineBackwardArguments& arguments, void* stream);
};

// Defined where kernels/moe/dispatch_cuda.cu is compiled.
extern const DispatchDeviceKernels cuda_dispatch_kernels;

}  // namespace llmtrain::kernels
