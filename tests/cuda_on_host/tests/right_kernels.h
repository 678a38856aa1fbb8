// SPDX-License-Identifier: Apache-2.0
// Kernels that use CUDA's words as they may be used, one idea each. Blocks are one-dimensional.
#pragma once

#include "kernels/cuda/device/language.h"

namespace llmtrain::kernels::test {

// sums[block] = Σ x[block, threads], through shuffles and shared memory. 256 threads.
__global__ void block_sums(const float* x, float* sums);

// y[block, threads] = x of the block backwards, through dynamic shared memory.
__global__ void reversed(const float* x, float* y);

// results[5, 32]: each lane's value after a shuffle in a group of `width` lanes: to lane 3, by xor 5, down by 2, up by
// 2, and its own. One warp; lane i gives i.
__global__ void shuffled(int* results, int width);

// results[5]: ballot, any, all, largest and sum over the lanes below `lanes` of x. One warp; the others take no part.
__global__ void voted(const unsigned* x, unsigned* results, int lanes);

// *sum += Σ x, *largest = max(*largest, x) over the whole grid.
__global__ void added(const int* x, int* sum, int* largest);

// Copies tiles of 4 · threads numbers through two buffers while the one before is summed. x [tiles, 4 · threads].
__global__ void tile_sums(const float* x, float* sums, int tiles);

// The threads below `threads` meet at two barriers, the others end at once. y[i] = x[threads − 1 − i].
__global__ void some_end_early(const float* x, float* y, int threads);

// y[z, y, x] = the thread's own number in a block and a grid of three dimensions.
__global__ void numbered(int* y);

// Two numbers and what they come to in bf16, and in E4M3 by its bits.
__global__ void rounded(const float* x, __nv_bfloat16* narrow, std::uint8_t* fp8);

}  // namespace llmtrain::kernels::test
