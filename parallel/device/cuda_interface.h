// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What the runtime asks of the CUDA part, a shared library of its own (libllmtrain_cuda.so) that is loaded when a
// recipe runs on a GPU: half a gigabyte of libtorch_cuda would otherwise slow down every start on a CPU. Loading it
// also registers LibTorch's CUDA operators. Plain C, so that it is found by name.
extern "C" {

struct LlmtrainCudaDevice {
  char name[256];
  std::int64_t memory_bytes;
  unsigned char id[16];  // the same in every process that sees it, and of no other GPU
};

struct LlmtrainCudaInterface {
  int (*device_count)();  // 0 also when the driver is missing
  void (*describe)(int device, LlmtrainCudaDevice* result);
  std::int64_t (*allocated_bytes)(int device);       // by LibTorch's caching allocator, now
  std::int64_t (*peak_allocated_bytes)(int device);  // since the start
  void (*synchronize)();
  void* (*compute_stream)(int device);  // the cudaStream_t that the calling thread puts its work on
};

const LlmtrainCudaInterface* llmtrain_cuda_interface();

}  // extern "C"
