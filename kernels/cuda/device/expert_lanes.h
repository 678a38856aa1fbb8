// SPDX-License-Identifier: Apache-2.0
// A warp has a token, and its lanes the numbers of the experts.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/device/block_sum.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/moe/routing_kernels.h"

namespace llmtrain::kernels {

constexpr unsigned all_lanes = 0xffffffffU;
constexpr int router_warps = 8;  // of a block that forms the sums of its tokens

// Lane l of a warp has the experts l, l + 32, … of a token, `held` of them.
template <int held>
struct OfExperts {
  // Calls work(expert, place) for this lane's experts.
  template <class Work>
  static __device__ __forceinline__ void over(int experts, Work work) {
#pragma unroll
    for (int i = 0; i < held; ++i) {
      const int expert = static_cast<int>(threadIdx.x % 32) + 32 * i;
      if (expert < experts) work(expert, i);
    }
  }
};

struct ExponentialSum {
  float largest, sum;
};

// `values` become exp(logit − the token's largest) of this lane's experts; their sum over the warp.
template <int held>
__device__ __forceinline__ ExponentialSum exponentials(const float* logits, int experts, float* values) {
  using Experts = OfExperts<held>;
  float largest = -INFINITY, sum = 0;
  Experts::over(experts, [&](int expert, int i) { largest = fmaxf(largest, values[i] = logits[expert]); });
  for (int bits = 16; bits > 0; bits /= 2) largest = fmaxf(largest, __shfl_xor_sync(all_lanes, largest, bits));
  Experts::over(experts, [&](int, int i) { sum += values[i] = expf(values[i] - largest); });
  return {largest, warp_sum(sum)};
}

// The block's sums of `columns` numbers, one warp's after the other's: add(row) adds those of the calling thread, which
// no other thread of its warp adds to.
template <class Add>
__device__ __forceinline__ void store_sums_of_warps(double* row, int columns, double* partials, Add add) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += 32 * router_warps) row[c] = 0;
  for (int turn = 0; turn < router_warps; ++turn) {
    __syncthreads();
    if (turn == warp) add(row);
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += 32 * router_warps)
    partials[static_cast<std::int64_t>(blockIdx.x) * columns + c] = row[c];
}

// Calls work.operator()<held>(), on the host.
template <class Work>
void with_held(int experts, Work work) {
  if (experts <= 32) return work.template operator()<1>();
  if (experts <= 128) return work.template operator()<4>();
  work.template operator()<most_routed_experts / 32>();
}

}  // namespace llmtrain::kernels
