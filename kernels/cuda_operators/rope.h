// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rope.h"

namespace llmtrain::kernels {

// Rotations (kernels/rope.h) on a GPU with the kernel of kernels/cuda/rope_kernels.h, in one pass over x and with no
// memory beside.

// Whether kernels take the table: fp32 without gaps.
bool is_cuda_rope_table(const RopeTable& table);

// Whether it takes x: fp32, bf16 or fp16, and the last axis without gaps.
bool has_cuda_rope(const at::Tensor& x, const RopeTable& table);

void cuda_rope_(const at::Tensor& x, const RopeTable& table, std::int64_t sequence_length, RopeDirection direction);

}  // namespace llmtrain::kernels
