// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_on_host/tests/right_kernels.h"

#include "kernels/cuda/device/async_copy.h"

namespace llmtrain::kernels::test {

__global__ void block_sums(const float* x, float* sums) {
  SHARED_ARRAY(float, partial, 8);
  float value = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int bits = 16; bits > 0; bits /= 2) value += __shfl_xor_sync(0xffffffffU, value, bits);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x != 0) return;
  value = 0;
  for (int warp = 0; warp < 8; ++warp) value += partial[warp];
  sums[blockIdx.x] = value;
}

__global__ void reversed(const float* x, float* y) {
  DYNAMIC_SHARED(float, memory);
  const unsigned first = blockIdx.x * blockDim.x;
  memory[threadIdx.x] = x[first + threadIdx.x];
  __syncthreads();
  y[first + threadIdx.x] = memory[blockDim.x - 1 - threadIdx.x];
}

__global__ void shuffled(int* results, int width) {
  const int own = static_cast<int>(threadIdx.x);
  results[threadIdx.x] = __shfl_sync(0xffffffffU, own, 3, width);
  results[32 + threadIdx.x] = __shfl_xor_sync(0xffffffffU, own, 5, width);
  results[64 + threadIdx.x] = __shfl_down_sync(0xffffffffU, own, 2, width);
  results[96 + threadIdx.x] = __shfl_up_sync(0xffffffffU, own, 2, width);
  results[128 + threadIdx.x] = own;
}

__global__ void voted(const unsigned* x, unsigned* results, int lanes) {
  if (static_cast<int>(threadIdx.x) >= lanes) return;
  const unsigned mask = lanes == 32 ? 0xffffffffU : (1U << lanes) - 1, own = x[threadIdx.x];
  const int is_odd = static_cast<int>(own % 2);
  const unsigned ballot = __ballot_sync(mask, is_odd);
  const int any = __any_sync(mask, is_odd), all = __all_sync(mask, is_odd);
  const unsigned largest = __reduce_max_sync(mask, own), sum = __reduce_add_sync(mask, own);
  if (threadIdx.x != 0) return;
  results[0] = ballot;
  results[1] = any != 0;
  results[2] = all != 0;
  results[3] = largest;
  results[4] = sum;
}

__global__ void added(const int* x, int* sum, int* largest) {
  const int own = x[blockIdx.x * blockDim.x + threadIdx.x];
  atomicAdd(sum, own);
  atomicMax(largest, own);
}

__global__ void tile_sums(const float* x, float* sums, int tiles) {
  DYNAMIC_SHARED(float, memory);
  const int threads = static_cast<int>(blockDim.x), size = 4 * threads, own = static_cast<int>(threadIdx.x);
  const auto load = [&](int tile) {
    if (tile < tiles) async_copy_16(memory + tile % 2 * size + 4 * own, x + tile * size + 4 * own);
    async_commit();
  };
  load(0);
  for (int tile = 0; tile < tiles; ++tile) {
    load(tile + 1);
    async_wait<1>();
    __syncthreads();
    // Another thread's numbers.
    const float* of = memory + tile % 2 * size + 4 * (threads - 1 - own);
    sums[tile * threads + own] = of[0] + of[1] + of[2] + of[3];
    __syncthreads();
  }
}

__global__ void some_end_early(const float* x, float* y, int threads) {
  SHARED_ARRAY(float, memory, 256);
  const int own = static_cast<int>(threadIdx.x);
  if (own >= threads) return;
  memory[own] = x[own];
  __syncthreads();
  const float value = memory[threads - 1 - own];
  __syncthreads();
  memory[own] = value;
  y[own] = memory[own];
}

__global__ void numbered(int* y) {
  const unsigned in_block = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned place = block * blockDim.x * blockDim.y * blockDim.z + in_block;
  y[place] = static_cast<int>(place);
}

__global__ void rounded(const float* x, __nv_bfloat16* narrow, std::uint8_t* fp8) {
  narrow[threadIdx.x] = __float2bfloat16_rn(x[threadIdx.x]);
  fp8[threadIdx.x] = __nv_cvt_float_to_fp8(x[threadIdx.x], __NV_SATFINITE, __NV_E4M3);
}

}  // namespace llmtrain::kernels::test
