// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_on_host/tests/wrong_kernels.h"

#include "kernels/cuda/device/async_copy.h"

namespace llmtrain::kernels::test {
namespace {

struct alignas(16) Four {
  float of[4];
};

__device__ float warp_sum(float value) {
  for (int bits = 16; bits > 0; bits /= 2) value += __shfl_xor_sync(0xffffffffU, value, bits);
  return value;
}

}  // namespace

__global__ void missing_barrier(const float* x, float* y) {
  SHARED_ARRAY(float, partial, 8);
  const float value = warp_sum(x[threadIdx.x]);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += partial[i];
  if (threadIdx.x == 0) *y = sum;
}

__global__ void missing_second_barrier(const float* x, float* y) {
  SHARED_ARRAY(float, partial, 8);
  for (int pass = 0; pass < 2; ++pass) {
    const float value = warp_sum(x[threadIdx.x] * static_cast<float>(pass + 1));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 8; ++i) sum += partial[i];
    y[pass * 256 + static_cast<int>(threadIdx.x)] = sum;
  }
}

__global__ void missing_wait(const float* x, float* y) {
  SHARED_ARRAY(Four, copy, 256);
  async_copy_16(copy + threadIdx.x, x + 4 * threadIdx.x);
  async_commit();
  __syncthreads();
  for (int k = 0; k < 4; ++k) y[4 * threadIdx.x + static_cast<unsigned>(k)] = copy[(threadIdx.x + 1) % 256].of[k];
}

__global__ void write_beyond(const float* x, float* y, int n) {
  for (int i = static_cast<int>(threadIdx.x); i < (n + 3) / 4; i += 256)
    reinterpret_cast<Four*>(y)[i] = reinterpret_cast<const Four*>(x)[i];
}

__global__ void shared_beyond(float* y) {
  SHARED_ARRAY(float, partial, 8);
  float* const own = partial + threadIdx.x / 32;
  own[threadIdx.x == 255 ? 1 : 0] = 1;
  if (threadIdx.x == 224) *own = 1;
  __syncthreads();
  y[threadIdx.x] = partial[0];
}

__global__ void dynamic_beyond(float* y) {
  DYNAMIC_SHARED(float, partial);
  partial[threadIdx.x + 1] = 1;
  __syncthreads();
  y[threadIdx.x] = partial[1];
}

__global__ void misaligned(const float* x, float* y, int width) {
  const auto first = static_cast<int>(blockIdx.x) * width + 4 * static_cast<int>(threadIdx.x);
  const Four pack = *reinterpret_cast<const Four*>(x + first);
  for (int k = 0; k < 4; ++k) y[first + k] = pack.of[k];
}

__global__ void inactive_lanes(const float* x, float* y, int n) {
  if (static_cast<int>(threadIdx.x) < n) {
    float value = x[threadIdx.x];
    value += __shfl_down_sync(0xffffffffU, value, 16);
    y[threadIdx.x] = value;
  }
}

__global__ void returned_lanes(const float* x, float* y, int n) {
  if (static_cast<int>(threadIdx.x) >= n) return;
  float value = x[threadIdx.x];
  value += __shfl_down_sync(0xffffffffU, value, 16);
  y[threadIdx.x] = value;
}

__global__ void half_warp(const float* x, float* y) { y[threadIdx.x] = warp_sum(x[threadIdx.x]); }

__global__ void lane_outside(float* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_sync(0x0000ffffU, static_cast<float>(threadIdx.x), 20);
}

__global__ void divergent_barrier(float* y) {
  SHARED_ARRAY(float, numbers, 256);
  numbers[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (threadIdx.x < 100) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  y[threadIdx.x] = numbers[255 - threadIdx.x];
}

__global__ void lockstep(const float* x, float* y) {
  SHARED_ARRAY(float, numbers, 64);
  numbers[threadIdx.x] = x[threadIdx.x];
  numbers[threadIdx.x + 32] = 0;
  __syncwarp();
  for (unsigned distance = 16; distance > 0; distance /= 2) numbers[threadIdx.x] += numbers[threadIdx.x + distance];
  if (threadIdx.x == 0) *y = numbers[0];
}

__global__ void unordered_blocks(float* y) {
  if (threadIdx.x == 0) *y += 1;
}

__global__ void block_waits_for_block(float* y) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) y[0] = 1;
  y[1 + blockIdx.x] = y[0];
}

__global__ void order_of_atomics(const float* x, float* y) { atomicAdd(y, x[blockIdx.x * 32 + threadIdx.x]); }

__global__ void uninitialised(float* y) {
  SHARED_ARRAY(float, numbers, 32);
  if (threadIdx.x == 5) numbers[5] = 1;
  __syncthreads();
  y[threadIdx.x] = numbers[threadIdx.x];
}

__global__ void narrow_index(const float* x, float* y, int rows, int width) {
  const int place = (rows - 1) * width;
  y[0] = x[place < 0 ? 0 : place % 4];
}

__global__ void large_shared(float* y) { y[0] = 1; }

}  // namespace llmtrain::kernels::test
