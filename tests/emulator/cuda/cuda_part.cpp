// SPDX-License-Identifier: Apache-2.0
// The program's CUDA part over the emulated device: put as libllmtrain_cuda.so beside a copy of the program, it lets
// `llmtrain run` with "cluster.device": "cuda" run without a GPU.
#include <cstdio>
#include <cstring>
#include <memory>

#include "parallel/device/cuda_interface.h"
#include "tests/emulator/cuda/kernels.h"
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

std::int64_t recent_peak_allocated_bytes(int device) { return counters(device).recent_peak; }

void restart_peak(int device) { counters(device).recent_peak = counters(device).allocated; }

// Time means nothing here: as small as shows that the code runs.
std::int64_t measuring_size() { return 64; }
// Once, so that tests can count what the host waits for.
double measuring_seconds() { return 0; }

void* compute_stream(int device) { return table_of_kernels.current_stream(device); }

void* begin_capture(int device, const void* beside) {
  Stream* const stream = current_stream(device);
  if (stream == default_stream(device)) throw Fault("a graph is captured on the default stream");
  auto graph = std::make_unique<Graph>();
  graph->begin(stream, static_cast<const Graph*>(beside));
  return graph.release();
}

void end_capture(void* graph) { static_cast<Graph*>(graph)->end(); }

void launch_graph(void* graph, int device) { static_cast<Graph*>(graph)->replay(current_stream(device)); }

void destroy_graph(void* graph) { delete static_cast<Graph*>(graph); }

void release_cached_memory(int device) { empty_cache(device); }

constexpr LlmtrainCudaInterface interface {
  .device_count = device_count, .describe = describe, .peak_allocated_bytes = peak_allocated_bytes,
  .recent_peak_allocated_bytes = recent_peak_allocated_bytes, .restart_peak = restart_peak,
  .measuring_size = measuring_size, .measuring_seconds = measuring_seconds, .compute_stream = compute_stream,
  .begin_capture = begin_capture, .end_capture = end_capture, .launch_graph = launch_graph,
  .destroy_graph = destroy_graph, .release_cached_memory = release_cached_memory, .kernels = &table_of_kernels,
};

}  // namespace

const LlmtrainCudaInterface* llmtrain_cuda_interface() { return &interface; }
