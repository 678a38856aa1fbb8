// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for Muon (kernels/muon), with raw pointers to device memory without gaps. LibTorch and CUDA are
// not needed here. All are one pass over their arrays, which may begin anywhere, and round a value once to its type.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

struct MuonMeanArguments {
  const float* mean = nullptr;  // [n], as all others
  KernelElement gradient = KernelElement::fp32;
  const void* gradients = nullptr;
  float* result = nullptr;  // may be `mean`
  std::int64_t n = 0;
  float momentum = 0;
  float share = 0;  // of a gradient
};

struct MuonNormalizeArguments {
  const float* matrix = nullptr;           // [n]
  const double* sum_of_squares = nullptr;  // [1]
  KernelElement element = KernelElement::bf16;
  void* result = nullptr;  // [n]
  std::int64_t n = 0;
  float smallest_norm = 0;
};

// Factors of the unit matrix, the Gram matrix and its square.
struct MuonCoefficients {
  float unit = 0, gram = 0, square = 0;
};

struct MuonPolynomialArguments {
  KernelElement element = KernelElement::bf16;
  const void* gram = nullptr;  // [side, side]
  void* square = nullptr;      // [side, side], replaced by the polynomial
  std::int64_t side = 0;
  MuonCoefficients coefficients;
};

struct MuonScaleArguments {
  KernelElement element = KernelElement::bf16;
  const void* x = nullptr;  // [n]
  float* result = nullptr;  // [n]
  std::int64_t n = 0;
  float scale = 1;
};

struct MuonStepArguments {
  float* weights = nullptr;       // [n], as all others
  const float* values = nullptr;  // orthogonalised and scaled
  KernelElement compute_weight = KernelElement::bf16;
  void* compute_weights = nullptr;  // or null
  std::int64_t n = 0;
  float decay = 1;
  float learning_rate = 0;
};

struct MuonKernels {
  // result = momentum · mean + share · gradient. Bytes per element: 8 and a gradient; FLOPs: 3.
  void (*mean)(const MuonMeanArguments& arguments, void* stream);
  // result = matrix ÷ max(√sum of squares, smallest norm). Bytes per element: 4 and one of the result; FLOPs: 1.
  void (*normalize)(const MuonNormalizeArguments& arguments, void* stream);
  // square = unit · 1 + gram · Gram matrix + square · square. Bytes per element: 3 of its type; FLOPs: 3.
  void (*polynomial)(const MuonPolynomialArguments& arguments, void* stream);
  // result = scale · x. Bytes per element: 4 and one of x; FLOPs: 1.
  void (*scale)(const MuonScaleArguments& arguments, void* stream);
  // weights = decay · weights − learning rate · values. Bytes per element: 12 and a compute weight; FLOPs: 3.
  void (*step)(const MuonStepArguments& arguments, void* stream);
};

// Defined where kernels/cuda/optimizer/muon.cu is compiled.
extern const MuonKernels cuda_muon_kernels;

}  // namespace llmtrain::kernels
