// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_table.h"

// The interface between the runtime and its CUDA part, a separate shared library (libllmtrain_cuda.so) that is loaded
// only when a recipe runs on a GPU: half a gigabyte of libtorch_cuda would otherwise slow down every start on a CPU.
// Loading it also registers LibTorch's CUDA operators. Plain C, so that dlsym() finds it by name.
extern "C" {

struct LlmtrainCudaDevice {
  char name[256];
  std::int64_t memory_bytes;
  unsigned char id[16];  // UUID: the same in every process that sees the GPU, and unique
};

// No function throws: those that can fail return null or do nothing, but for graphs, whose errors are LibTorch's
// exceptions.
struct LlmtrainCudaInterface {
  int (*device_count)();  // 0 also if the driver is missing. Called first, before the device allocates
  void (*describe)(int device, LlmtrainCudaDevice* result);
  std::int64_t (*peak_allocated_bytes)(int device);         // by LibTorch's caching allocator since the process started
  std::int64_t (*recent_peak_allocated_bytes)(int device);  // since the last restart_peak()
  void (*restart_peak)(int device);
  std::int64_t (*measuring_size)();     // as DeviceRuntime::measuring_size()
  double (*measuring_seconds)();        // as DeviceRuntime::measuring_seconds()
  void* (*compute_stream)(int device);  // the cudaStream_t on which the calling thread enqueues its work

  // Captures the calling thread's current stream, which must not be the default one: what is enqueued on it from begin
  // to end becomes a graph, whose memory is also that of `beside`, or without one its own. The caller destroys it, also
  // one whose capture has not ended.
  void* (*begin_capture)(int device, const void* beside);
  void (*end_capture)(void* graph);
  void (*launch_graph)(void* graph, int device);  // on the calling thread's current stream
  void (*destroy_graph)(void* graph);

  void (*release_cached_memory)(int device);  // of LibTorch's caching allocator, but for that of graphs; may wait

  const llmtrain::kernels::KernelTable* kernels;
};

const LlmtrainCudaInterface* llmtrain_cuda_interface();

}  // extern "C"
