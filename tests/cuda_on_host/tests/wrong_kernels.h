// SPDX-License-Identifier: Apache-2.0
// Kernels that are each wrong in one way, which often shows nowhere: wrong_kernels_test.cpp says what catches which.
#pragma once

#include "kernels/cuda/device/language.h"

namespace llmtrain::kernels::test {

// *y = Σ x, and y[2, 256] = Σ x and 2 Σ x; x [256]. Without the barrier in front of reading what warps have written,
// and without the one in front of writing it again.
__global__ void missing_barrier(const float* x, float* y);
__global__ void missing_second_barrier(const float* x, float* y);

// y = x shifted by four, through late copies for which nothing waits. x, y [1024].
__global__ void missing_wait(const float* x, float* y);

// y[0, n) = x in packs of 16 bytes, the last one beyond n.
__global__ void write_beyond(const float* x, float* y, int n);
// The last thread uses shared memory one element beyond its end, in a declared array and in what the launch asked for.
__global__ void shared_beyond(float* y);
__global__ void dynamic_beyond(float* y);
// 16 bytes at once from rows that are not aligned to them.
__global__ void misaligned(const float* x, float* y, int width);

// A shuffle of all lanes in a branch that some do not take; one that counts on threads that have returned; one in a
// block that has half a warp; one from a lane that its mask leaves out.
__global__ void inactive_lanes(const float* x, float* y, int n);
__global__ void returned_lanes(const float* x, float* y, int n);
__global__ void half_warp(const float* x, float* y);
__global__ void lane_outside(float* y);

// Barriers in both branches of a condition.
__global__ void divergent_barrier(float* y);
// Lanes that are taken to go on in lockstep, as before Volta.
__global__ void lockstep(const float* x, float* y);

// Blocks that add to one place without atomics; a block that counts on another one having run.
__global__ void unordered_blocks(float* y);
__global__ void block_waits_for_block(float* y);
// A sum whose order is that of the blocks.
__global__ void order_of_atomics(const float* x, float* y);

// Shared memory that is taken for zero.
__global__ void uninitialised(float* y);
// An index that 32 bits do not hold.
__global__ void narrow_index(const float* x, float* y, int rows, int width);
// Right by itself; its launch asks for too much shared memory.
__global__ void large_shared(float* y);

}  // namespace llmtrain::kernels::test
