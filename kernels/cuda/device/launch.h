// SPDX-License-Identifier: Apache-2.0
// The one way to start a kernel: on a stream of a GPU, or, where a host's compiler has compiled it, wherever
// cuda_on_host.h lets it run.
#pragma once

#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>

#include "kernels/cuda/device/language.h"
#include "kernels/cuda/device/memory_use.h"

namespace llmtrain::kernels {

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

// Enqueues the kernel and does not block. `parameters` is a plain struct that holds no pointer to other pointers;
// `memory` is all that the kernel reads and writes. Throws std::runtime_error where the device refuses the launch.
template <class Parameters>
void launch(void* stream, const char* name, void (*kernel)(Parameters), const LaunchShape& shape,
            const Parameters& parameters, std::span<const MemoryUse> memory) {
#ifdef __CUDACC__
  static_cast<void>(memory);
  constexpr std::size_t allowed = 48 << 10;  // more must be asked for
  cudaError_t status = cudaSuccess;
  if (shape.shared_bytes > allowed)
    status =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
  if (status == cudaSuccess) {
    kernel<<<shape.grid, shape.block, shape.shared_bytes, static_cast<cudaStream_t>(stream)>>>(parameters);
    status = cudaGetLastError();
  }
  if (status != cudaSuccess)
    throw std::runtime_error(std::string("the kernel ") + name + " was not launched: " + cudaGetErrorString(status));
#else
  cuda_on_host::enqueue(stream, {name, memory.data(), memory.size()}, parameters, [kernel, shape](const Parameters& p) {
    cuda_on_host::launch(shape.grid, shape.block, shape.shared_bytes, [&] { kernel(p); });
  });
#endif
}

template <class Parameters>
void launch(void* stream, const char* name, void (*kernel)(Parameters), const LaunchShape& shape,
            const Parameters& parameters, std::initializer_list<MemoryUse> memory) {
  launch(stream, name, kernel, shape, parameters, std::span<const MemoryUse>(memory.begin(), memory.size()));
}

}  // namespace llmtrain::kernels
