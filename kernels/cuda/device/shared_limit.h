// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/cuda/device/language.h"

namespace llmtrain::kernels {

// Bytes of shared memory that a launch on the current device may ask for, beside up to a KiB of declared arrays. Throws
// std::runtime_error where the device does not say.
inline std::size_t shared_limit() {
  constexpr std::size_t declared = 1 << 10;
#ifdef __CUDACC__
  int device = 0, bytes = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status != cudaSuccess)
    throw std::runtime_error(std::string("how much shared memory a block may have: ") + cudaGetErrorString(status));
  return static_cast<std::size_t>(bytes) - declared;
#else
  return (48U << 10) - declared;
#endif
}

}  // namespace llmtrain::kernels
