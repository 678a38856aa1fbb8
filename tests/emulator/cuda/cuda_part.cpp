// SPDX-License-Identifier: Apache-2.0
// The program's CUDA part (parallel/device/cuda_interface.h) over the emulated device: put as libllmtrain_cuda.so beside
// a copy of libllmtrain_runtime.so, it lets `llmtrain run` with "cluster.device": "cuda" run without a GPU.
#include "parallel/device/cuda_interface.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

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

// EMULATED_SUMMARY=1: at exit, what the devices did and which operators ran how.
struct Summary {
  ~Summary() {
    if (std::getenv("EMULATED_SUMMARY") == nullptr) return;
    for (int d = 0; d < settings().devices; ++d) {
      const Counters& c = counters(d);
      if (c.launches == 0) continue;
      std::fprintf(stderr,
                   "device %d: %ld launches, %ld allocations (%ld new), peak %ld, %ld waits (%ld item), %ld pageable "
                   "copies, %ld bytes in, %ld out, %ld races\n",
                   d, c.launches, c.allocations, c.growths, c.peak, c.synchronisations, c.item_reads, c.pageable_copies,
                   c.bytes_to_device, c.bytes_to_host, c.races);
      std::map<std::string, int> waits;
      for (const std::string& why : c.waits) ++waits[why];
      for (const auto& [why, count] : waits) std::fprintf(stderr, "  waited for %s: %d of the last\n", why.c_str(), count);
    }
    for (const auto& [name, ways] : operator_ways())
      for (const auto& [way, count] : ways) std::fprintf(stderr, "  %-60s %-8s %d\n", name.c_str(), way.c_str(), count);
  }
} summary;

}  // namespace

const LlmtrainCudaInterface* llmtrain_cuda_interface() { return &interface; }
