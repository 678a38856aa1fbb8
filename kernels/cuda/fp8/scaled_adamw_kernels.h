// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for AdamW over states in small types (kernels/adamw.h), with raw pointers to device memory
// without gaps. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/optimizer/adamw_constants.h"
#include "kernels/random/stochastic_rounding.h"

namespace llmtrain::kernels {

// A tensor, or a part of one.
struct ScaledAdamwOperands {
  struct Array {
    void* payload = nullptr;       // [n]
    const float* scale = nullptr;  // [1]
  };
  Array weights;    // fp16
  Array m, v;       // E4M3 and fp16, or fp32 both, as those of all tensors
  Array gradients;  // E4M3 or fp32; not changed
  bool has_small_moments = false, has_wide_gradients = false;
  std::int64_t n = 0;
  float decay = 1;                               // that of the step, or 1
  float* numbers = nullptr;                      // [3] of weights, m and v
  const StochasticRounding* rounding = nullptr;  // on the host; null: to nearest
};

struct ScaledAdamwArguments {
  const ScaledAdamwOperands* tensors = nullptr;  // on the host
  std::int64_t count = 0;
  AdamwConstants step;
};

struct ScaledAdamwDeviceKernels {
  // One kernel for all tensors with gradients of one type, or more where they are more than its parameters hold, 40:
  // the largest magnitudes that the step leaves, into `numbers` where these are not larger. Bytes per element: those of
  // all arrays.
  void (*largest)(const ScaledAdamwArguments& arguments, void* stream);
  // The same, or for 29 tensors where they are rounded at random; stores with the scales `numbers`. Bytes per element:
  // those of all arrays, and of the state's again. Both have a processor's bits where that multiplies and adds at once
  // (kernels/vector).
  void (*step)(const ScaledAdamwArguments& arguments, void* stream);
};

// Defined where kernels/fp8/scaled_adamw_cuda.cu is compiled.
extern const ScaledAdamwDeviceKernels cuda_scaled_adamw_kernels;

}  // namespace llmtrain::kernels
