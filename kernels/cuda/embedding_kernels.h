// SPDX-License-Identifier: Apache-2.0
// The kernel of a GPU for the gradients of embeddings (kernels/embedding.h), with raw pointers to contiguous device
// memory. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

// gradient[targets[i]] += dy[rows[i]] for all i, in fp32: in the order of i, but for runs of equal targets that hold a
// whole chunk of long_run_rows rows. Those are summed in long_run_parts parts, each of every so many-th row in its
// order, and the parts added in theirs.
struct AddRowsArguments {
  KernelElement element;
  const void* dy = nullptr;               // [count, width]
  const std::int64_t* targets = nullptr;  // [count], ascending
  const std::int64_t* rows = nullptr;     // [count]
  float* gradient = nullptr;              // [table, width]
  std::int64_t count = 0;                 // fewer than 2³¹
  std::int64_t table = 0;
  int width = 0;
};

constexpr int long_run_rows = 64, long_run_parts = 16;

struct EmbeddingKernels {
  // One kernel, and a second one where there may be long runs. Bytes: those of dy once, and those of the gradient's
  // rows that change twice.
  void (*add_rows)(const AddRowsArguments& arguments, void* stream);
};

// Defined where kernels/cuda/embedding.cu is compiled.
extern const EmbeddingKernels cuda_embedding_kernels;

}  // namespace llmtrain::kernels
