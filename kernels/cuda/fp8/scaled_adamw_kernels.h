// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for AdamW over states in small types (kernels/adamw.h), with raw pointers to device memory
// without gaps. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/optimizer/adamw_constants.h"
#include "kernels/random/stochastic_rounding.h"

namespace llmtrain::kernels {

struct ScaledAdamwArguments {
  struct Array {
    void* payload = nullptr;       // [n]
    const float* scale = nullptr;  // [1]
  };
  Array weights;    // fp16
  Array m, v;       // E4M3 and fp16, or fp32 both
  Array gradients;  // E4M3 or fp32; not changed
  bool has_small_moments = false, has_wide_gradients = false;
  std::int64_t n = 0;
  AdamwConstants step;
};

// Partial results of a search; three for each block.
constexpr int scaled_adamw_partials = 3 * 2048;

struct ScaledAdamwDeviceKernels {
  // Two kernels, a short one second: the largest magnitudes that the step leaves, [3] of weights, m and v, with
  // `partials` as scratch. Bytes per element: those of all arrays.
  void (*largest)(const ScaledAdamwArguments& arguments, unsigned* partials, float* largest, void* stream);
  // One kernel; stores with the scales next [3], rounded at random where `rounding` is not null. Bytes per element:
  // those of all arrays, and of the state's again. Both have a processor's bits where that multiplies and adds at once
  // (kernels/vector).
  void (*step)(const ScaledAdamwArguments& arguments, const float* next, const StochasticRounding* rounding,
               void* stream);
};

// Defined where kernels/fp8/scaled_adamw_cuda.cu is compiled.
extern const ScaledAdamwDeviceKernels cuda_scaled_adamw_kernels;

}  // namespace llmtrain::kernels
