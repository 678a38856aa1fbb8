// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for the load-importance loss of routers (kernels/moe/load_importance.h), with raw pointers to
// contiguous device memory. Sums have one order whatever the order of threads and blocks. LibTorch and CUDA are not
// needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/moe/routing_kernels.h"

namespace llmtrain::kernels {

// At most most_routed_experts.
struct LoadImportanceArguments {
  const float* logits = nullptr;         // [tokens, experts], without noise
  const float* noisy = nullptr;          // [tokens, experts]
  const std::int64_t* chosen = nullptr;  // [tokens, choices]: the last of a token says its threshold
  std::int64_t tokens = 0;
  int experts = 0;
  int choices = 0;
  float deviation = 0;          // of the noise
  float* thresholds = nullptr;  // [tokens]
  double* partials = nullptr;   // [token_pieces(), 2 · experts]: importance and load
};

struct LoadImportanceTotalsArguments {
  const double* partials = nullptr;  // [pieces, 2 · experts]
  std::int64_t pieces = 0;
  int experts = 0;
  const double* before = nullptr;  // [numbers]: copied in front of the sums
  int numbers = 0;
  double* totals = nullptr;  // [numbers + 2 · experts]
};

struct LoadImportanceLossArguments {
  const double* sums = nullptr;  // [2 · experts]
  int experts = 0;
  double* loss = nullptr;   // [1]
  float* slopes = nullptr;  // [2 · experts]: the loss's gradient for the sums
};

struct LoadImportanceBackwardArguments {
  const float* logits = nullptr;         // [tokens, experts], without noise
  const float* thresholds = nullptr;     // [tokens]
  const std::int64_t* chosen = nullptr;  // [tokens, choices]
  const float* slopes = nullptr;         // [2 · experts]
  std::int64_t tokens = 0;
  int experts = 0;
  int choices = 0;
  float deviation = 0;
  float scale = 0;
  float* dlogits = nullptr;  // [tokens, experts]: `scale` times the gradient is added
};

struct LoadImportanceKernels {
  // One kernel. Bytes: the logits once, a choice, a noisy logit and a threshold of each token.
  void (*sums)(const LoadImportanceArguments& arguments, void* stream);
  // One kernel each, over numbers that do not grow with the tokens.
  void (*totals)(const LoadImportanceTotalsArguments& arguments, void* stream);
  void (*loss)(const LoadImportanceLossArguments& arguments, void* stream);
  // One kernel. Bytes: the logits once and their gradient twice, a choice and a threshold of each token.
  void (*backward)(const LoadImportanceBackwardArguments& arguments, void* stream);
};

// Defined where kernels/moe/load_importance_cuda.cu is compiled.
extern const LoadImportanceKernels cuda_load_importance_kernels;

}  // namespace llmtrain::kernels
