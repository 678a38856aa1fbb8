// SPDX-License-Identifier: Apache-2.0
// The kernel of a GPU that puts gradients of attention's inputs beside one another (kernels/joined_heads.h), with raw
// pointers to device memory. Arithmetic is fp32, and each result is rounded once. LibTorch and CUDA are not needed
// here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

struct HeadsOperand {
  const void* x = nullptr;  // [tokens, heads, 2·half] with the strides below, in elements
  int heads = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
};

struct JoinedHeadsArguments {
  KernelElement element;
  HeadsOperand query, key, value;
  void* joined = nullptr;         // [tokens, heads of all three, 2·half]
  const float* cosine = nullptr;  // [positions, half], or null: nothing is rotated
  const float* sine = nullptr;    // [positions, half], or null
  std::int64_t tokens = 0;        // fewer than 2³¹
  int half = 0;
  std::int64_t sequence_length = 0;  // token t has the angles of row t mod sequence_length
};

struct JoinedHeadsKernels {
  // One kernel. Bytes per element of size s: 2 s; FLOPs: 3 for queries and keys that are rotated.
  void (*join)(const JoinedHeadsArguments& arguments, void* stream);
};

// Defined where kernels/cuda/joined_heads.cu is compiled.
extern const JoinedHeadsKernels cuda_joined_heads_kernels;

}  // namespace llmtrain::kernels
