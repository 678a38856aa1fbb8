// SPDX-License-Identifier: Apache-2.0
// The threads that share a row's work, each with packs of `size` elements of its own.
#pragma once

#include "kernels/cuda/device/block_sum.h"
#include "kernels/cuda/device/elements.h"

namespace llmtrain::kernels {

// A row per warp, or per block with at most one pack for a thread, which holds it in registers; or rows of any length,
// whose packs are read again from the cache.
enum class Team { warp, block, loop };

constexpr int warps_of_block = 4;  // of a block of Team::warp

constexpr int most_threads(Team team) {
  if (team == Team::warp) return 32 * warps_of_block;
  return team == Team::block ? 1024 : 512;
}

// This team's number, and how many there are.
template <Team team>
__device__ __forceinline__ std::int64_t first_team() {
  if constexpr (team != Team::warp) return blockIdx.x;
  return static_cast<std::int64_t>(blockIdx.x) * warps_of_block + threadIdx.x / 32;
}
template <Team team>
__device__ __forceinline__ std::int64_t team_count() {
  return static_cast<std::int64_t>(gridDim.x) * (team == Team::warp ? warps_of_block : 1);
}

// Number of this thread in its team.
template <Team team>
__device__ __forceinline__ int place() {
  return static_cast<int>(team == Team::warp ? threadIdx.x % 32 : threadIdx.x);
}

// The sum of the team's values, in all of its threads; the order is fixed.
template <Team team>
__device__ __forceinline__ float team_sum(float value) {
  if constexpr (team == Team::warp) return warp_sum(value);
  return block_sum(value);
}

// Calls work(pack) for this thread's packs of a row.
template <int size, Team team, class Work>
__device__ __forceinline__ void over_packs(int width, Work work) {
  const int packs = width / size;
  if constexpr (team == Team::loop) {
    for (int i = place<team>(); i < packs; i += static_cast<int>(blockDim.x)) work(i);
  } else if (place<team>() < packs) {
    work(place<team>());
  }
}

// A row, of which this thread reads its own packs alone. Null is a row that nothing reads.
template <class T, int size, Team team>
struct TeamRow {
  using Elements = Pack<T, size>;

  __device__ TeamRow(const T* row, int width) : memory(reinterpret_cast<const Elements*>(row)) {
    if constexpr (team != Team::loop)
      if (row != nullptr && place<team>() < width / size) held = memory[place<team>()];
  }
  __device__ Elements operator[](int i) const {
    if constexpr (team == Team::loop) return memory[i];
    return held;
  }

  const Elements* memory;
  Elements held{};
};

}  // namespace llmtrain::kernels
