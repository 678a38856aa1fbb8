// SPDX-License-Identifier: Apache-2.0
// The kernel of a GPU for rotary positions (kernels/rope.h), with raw pointers to device memory. Arithmetic is fp32,
// and each result is rounded once. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

struct RopeArguments {
  KernelElement element;
  void* x = nullptr;              // [tokens, heads, 2·half] with the strides below, in elements; changed in place
  const float* cosine = nullptr;  // [positions, half]
  const float* sine = nullptr;    // [positions, half]
  std::int64_t tokens = 0;        // fewer than 2³¹
  int heads = 0;
  int half = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t sequence_length = 0;  // token t has the angles of row t mod sequence_length
  float direction = 1;               // 1 rotates forward, −1 back
};

struct RopeKernels {
  // One kernel. Bytes per element of size s: 2 s; FLOPs: 3.
  void (*rotate)(const RopeArguments& arguments, void* stream);
};

// Defined where kernels/cuda/rope.cu is compiled.
extern const RopeKernels cuda_rope_kernels;

}  // namespace llmtrain::kernels
