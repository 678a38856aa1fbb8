// SPDX-License-Identifier: Apache-2.0
// What the functions with names of CUDA's and NCCL's share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

#include "tests/emulator/device/runtime.h"

namespace emulated {

// What went wrong last on the calling thread, as the functions that give it as text return it.
inline std::string& last_error() {
  thread_local std::string text;
  return text;
}

// C functions return a status instead of throwing.
template <class Function>
cudaError_t guarded(const Function& function) {
  try {
    function();
    return cudaSuccess;
  } catch (const OutOfMemory& error) {
    last_error() = error.what();
    return cudaErrorMemoryAllocation;
  } catch (const std::exception& error) {
    last_error() = error.what();
    std::fprintf(stderr, "emulated: %s\n", error.what());
    return cudaErrorUnknown;
  }
}

inline Stream* stream_of(cudaStream_t stream) {
  return stream != nullptr ? reinterpret_cast<Stream*>(stream) : default_stream(current_device());
}

}  // namespace emulated
