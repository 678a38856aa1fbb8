// SPDX-License-Identifier: Apache-2.0
// The program's CUDA part over the emulated device: put as libllmtrain_cuda.so beside a copy of the program, it lets
// `llmtrain run` with "cluster.device": "cuda" run without a GPU.
#include <cstdio>
#include <cstring>

#include "parallel/device/cuda_interface.h"
#include "tests/emulator/torch/backend.h"

namespace {

using namespace emulated;

int device_count() {
  report_bad_accesses();
  return settings().devices;
}

void describe(int device, LlmtrainCudaDevice* result) {
  std::snprintf(result->name, sizeof result->name, "emulated GPU (%s)", protection());
  result->memory_bytes = static_cast<std::int64_t>(settings().memory);
  std::memset(result->id, device + 1, sizeof result->id);
}

std::int64_t peak_allocated_bytes(int device) { return counters(device).peak; }

void synchronize() { synchronize_device(current_device(), "the program's synchronize()"); }

void* compute_stream(int device) { return current_stream(device); }

constexpr LlmtrainCudaInterface interface { device_count, describe, peak_allocated_bytes, synchronize, compute_stream };

}  // namespace

const LlmtrainCudaInterface* llmtrain_cuda_interface() { return &interface; }
