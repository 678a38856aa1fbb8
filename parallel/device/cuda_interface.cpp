// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/cuda_interface.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "kernels/cuda/all_kernels.h"

namespace {

// What LibTorch and CUDA read when they start, unless the user has said otherwise.
void choose_settings() {
  // Blocks of the caching allocator that grow: those of fixed sizes leave gaps that no other tensor fits into, most of
  // all where shapes change, as in generation, curricula and between experts.
  if (std::getenv("PYTORCH_ALLOC_CONF") == nullptr && std::getenv("PYTORCH_CUDA_ALLOC_CONF") == nullptr)
    c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
  // Hardware queues: with eight, CUDA's choice, the streams of links, copies and computation share some, and what waits
  // for another rank holds up what follows it in the queue. CUDA reads it when it makes its first context.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int device_count() {
  static const bool is_chosen = [] {
    choose_settings();
    return true;
  }();
  static_cast<void>(is_chosen);
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

std::int64_t recent_peak_allocated_bytes(int device) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
  return stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
}

// The peaks before restarts.
std::int64_t& former_peak(int device) {
  static std::array<std::int64_t, C10_COMPILE_TIME_MAX_GPUS> peaks{};
  return peaks.at(static_cast<std::size_t>(device));
}

std::int64_t peak_allocated_bytes(int device) {
  return std::max(former_peak(device), recent_peak_allocated_bytes(device));
}

// Each device has one rank of this process, which alone restarts its peak.
void restart_peak(int device) {
  former_peak(device) = peak_allocated_bytes(device);
  c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(device));
}

// A product that fills an H100's processors for a millisecond.
std::int64_t measuring_size() { return 8192; }

// A GPU needs the time to raise its clock rate.
double measuring_seconds() { return 0.1; }

void* compute_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

void* begin_capture(int device, const void* beside) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  at::cuda::MempoolId_t memory{0, 0};  // a new one
  // Only to be asked, although its functions are not const.
  if (beside != nullptr) memory = static_cast<at::cuda::CUDAGraph*>(const_cast<void*>(beside))->pool();
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  // Other threads may allocate and wait meanwhile: only what this thread does is captured, and may be forbidden.
  graph->capture_begin(memory, cudaStreamCaptureModeThreadLocal);
  return graph.release();
}

void end_capture(void* graph) { static_cast<at::cuda::CUDAGraph*>(graph)->capture_end(); }

void launch_graph(void* graph, int device) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  static_cast<at::cuda::CUDAGraph*>(graph)->replay();
}

void destroy_graph(void* graph) { delete static_cast<at::cuda::CUDAGraph*>(graph); }

void release_cached_memory(int device) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  c10::cuda::CUDACachingAllocator::emptyCache();
}

constexpr llmtrain::kernels::KernelTable kernel_table = llmtrain::kernels::all_kernels(compute_stream);

constexpr LlmtrainCudaInterface interface {
  .device_count = device_count, .describe = describe, .peak_allocated_bytes = peak_allocated_bytes,
  .recent_peak_allocated_bytes = recent_peak_allocated_bytes, .restart_peak = restart_peak,
  .measuring_size = measuring_size, .measuring_seconds = measuring_seconds, .compute_stream = compute_stream,
  .begin_capture = begin_capture, .end_capture = end_capture, .launch_graph = launch_graph,
  .destroy_graph = destroy_graph, .release_cached_memory = release_cached_memory, .kernels = &kernel_table,
};

}  // namespace

const LlmtrainCudaInterface* llmtrain_cuda_interface() { return &interface; }
