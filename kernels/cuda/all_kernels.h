// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/kernel_table.h"

namespace llmtrain::kernels {

// The table of all kernels, for who is linked with them: the CUDA part, and the emulated one.
constexpr KernelTable all_kernels(void* (*current_stream)(int device)) {
  return {.current_stream = current_stream,
          .norm = &cuda_norm_kernels,
          .activation = &cuda_activation_kernels,
          .rope = &cuda_rope_kernels,
          .joined_heads = &cuda_joined_heads_kernels,
          .cross_entropy = &cuda_cross_entropy_kernels,
          .embedding = &cuda_embedding_kernels,
          .adamw = &cuda_adamw_kernels,
          .fp8 = &cuda_fp8_kernels,
          .scaled_adamw = &cuda_scaled_adamw_kernels,
          .dispatch = &cuda_dispatch_kernels,
          .expert_rows = &cuda_expert_row_kernels,
          .routing = &cuda_routing_kernels,
          .jitter = &cuda_jitter_kernels,
          .load_importance = &cuda_load_importance_kernels,
          .group_gradients = &cuda_group_gradient_kernels,
          .dropout = &cuda_dropout_kernels,
          .bias = &cuda_bias_kernels,
          .gelu = &cuda_gelu_kernels,
          .squares = &cuda_squares_kernels,
          .muon = &cuda_muon_kernels,
          .decode = &cuda_decode_kernels};
}

}  // namespace llmtrain::kernels
