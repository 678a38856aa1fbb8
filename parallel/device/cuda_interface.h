// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The interface between the runtime and its CUDA part, a separate shared library (libllmtrain_cuda.so) that is loaded
// only when a recipe runs on a GPU: half a gigabyte of libtorch_cuda would otherwise slow down every start on a CPU.
// Loading it also registers LibTorch's CUDA operators. Plain C, so that dlsym() finds it by name.
extern "C" {

struct LlmtrainCudaDevice {
  char name[256];
  std::int64_t memory_bytes;
  unsigned char id[16];  // UUID: the same in every process that sees the GPU, and unique
};

struct LlmtrainCudaInterface {
  int (*device_count)();  // 0 also if the driver is missing
  void (*describe)(int device, LlmtrainCudaDevice* result);
  std::int64_t (*peak_allocated_bytes)(int device);  // by LibTorch's caching allocator since the process started
  void (*synchronize)();
  void* (*compute_stream)(int device);  // the cudaStream_t on which the calling thread enqueues its work
};

const LlmtrainCudaInterface* llmtrain_cuda_interface();

}  // extern "C"
