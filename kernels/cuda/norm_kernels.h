// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for norms (kernels/norm.h), with raw pointers to contiguous device memory. Arithmetic and
// statistics are fp32; sums have an order that depends on the shape alone. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

// Null statistics `mean` select root-mean-square normalisation.
struct NormForwardArguments {
  KernelElement element;
  const void* x = nullptr;       // [rows, width]
  void* residual = nullptr;      // [rows, width], or null: residual += x, rounded, and its norm instead of x's
  const void* weight = nullptr;  // [width]
  const void* bias = nullptr;    // [width], or null
  void* y = nullptr;             // [rows, width]
  float* mean = nullptr;         // [rows], or null
  float* rstd = nullptr;         // [rows]
  std::int64_t rows = 0;
  int width = 0;
  float eps = 0;
};

struct NormBackwardArguments {
  KernelElement element;
  const void* dy = nullptr;      // [rows, width]
  const void* x = nullptr;       // [rows, width]
  const float* mean = nullptr;   // [rows], or null
  const float* rstd = nullptr;   // [rows]
  const void* weight = nullptr;  // [width]
  void* dx = nullptr;            // [rows, width], added to: holds the residual's gradient
  float* partials = nullptr;     // scratch, norm_partials() numbers
  float* dweight = nullptr;      // [width]
  float* dbias = nullptr;        // [width], or null
  std::int64_t rows = 0;
  int width = 0;
  bool adds = true;  // to what dweight and dbias hold; else these are not read
};

// Sums over rows are formed from one partial sum per piece of this many rows.
constexpr std::int64_t norm_kernel_rows = 32;

inline std::int64_t norm_partials(std::int64_t rows, std::int64_t width, bool has_mean) {
  return (rows + norm_kernel_rows - 1) / norm_kernel_rows * (has_mean ? 2 : 1) * width;
}

// The backward keeps the sums of wide rows in shared memory, of which any GPU since sm_80 gives a block 99 KiB.
constexpr std::int64_t widest_norm(bool has_mean) { return (has_mean ? 12 : 24) << 10; }

struct NormKernels {
  // One kernel. Bytes per element of size s: 2 s (4 s with a residual); FLOPs: 8 (layer), 5.
  void (*forward)(const NormForwardArguments& arguments, void* stream);
  // Two kernels, the second one over the partial sums. Bytes per element: 4 s; FLOPs: 17 (layer), 13.
  void (*backward)(const NormBackwardArguments& arguments, void* stream);
};

// Defined where kernels/cuda/norm.cu is compiled.
extern const NormKernels cuda_norm_kernels;

}  // namespace llmtrain::kernels
