// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for sums of squares (kernels/reduction.h), with raw pointers to device memory without gaps.
// LibTorch and CUDA are not needed here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

// Pieces whose sums are added up, a function of the number of elements alone: no more than a large GPU has blocks at
// once, so that whoever adds them up has little to do.
constexpr std::int64_t square_pieces(std::int64_t n) {
  constexpr std::int64_t elements = 4096, most = 1024;
  return std::clamp<std::int64_t>((n + elements - 1) / elements, 1, most);
}

struct SquaresArguments {
  KernelElement element = KernelElement::fp32;
  const void* x = nullptr;  // [n]
  std::int64_t n = 0;
  double* partials = nullptr;  // [square_pieces(n)]
  double* sum = nullptr;       // [1]
};

struct SquaresKernels {
  // Two kernels. The elements that 16 bytes hold are squared and summed in fp32, all else in float64, in an order that
  // the number of elements alone decides. Bytes: those of x; FLOPs: 2 per element.
  void (*sum)(const SquaresArguments& arguments, void* stream);
};

// Defined where kernels/cuda/optimizer/squares.cu is compiled.
extern const SquaresKernels cuda_squares_kernels;

// sum[1] of partials[pieces], in an order that their number alone decides: the second of the two.
void total_squares(const double* partials, std::int64_t pieces, double* sum, void* stream);

}  // namespace llmtrain::kernels
