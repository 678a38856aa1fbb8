// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/cuda_interface.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string_view>

namespace {

int device_count() {
  const int count = c10::cuda::device_count();
  // LibTorch initialises CUDA lazily; the callers below use the allocator and streams directly and rely on it.
  if (count > 0) at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return count;
}

void describe(int device, LlmtrainCudaDevice* result) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return;
  const std::string_view name(properties.name);
  const auto count = std::min(name.size(), sizeof(result->name) - 1);
  std::copy_n(name.begin(), count, result->name);
  result->name[count] = '\0';
  result->memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  // The interface has a plain array, because its header must not depend on CUDA's.
  static_assert(sizeof(properties.uuid.bytes) == sizeof(result->id));
  std::copy_n(properties.uuid.bytes, sizeof(result->id), result->id);
}

std::int64_t peak_allocated_bytes(int device) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
  return stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
}

void synchronize() { c10::cuda::device_synchronize(); }

void* compute_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

constexpr LlmtrainCudaInterface interface { device_count, describe, peak_allocated_bytes, synchronize, compute_stream };

}  // namespace

const LlmtrainCudaInterface* llmtrain_cuda_interface() { return &interface; }
