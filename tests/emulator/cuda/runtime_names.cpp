// SPDX-License-Identifier: Apache-2.0
// Functions of CUDA's runtime, by their own names, over the emulated device.
#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>

#include "tests/emulator/cuda/guarded.h"

namespace {

using namespace emulated;

Event& event_of(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }

bool is_pageable(const void* memory) { return device_of_memory(memory) < 0 && !is_pinned(memory); }

void note_copy(void* to, const void* from, std::size_t bytes) {
  const int from_device = device_of_memory(from), to_device = device_of_memory(to);
  const int device = to_device >= 0 ? to_device : from_device;
  if (device < 0) return;
  if (is_pageable(to) || is_pageable(from)) count(device, &Counters::pageable_copies);
  if (from_device < 0) count(device, &Counters::bytes_to_device, static_cast<std::int64_t>(bytes));
  if (to_device < 0) count(device, &Counters::bytes_to_host, static_cast<std::int64_t>(bytes));
}

// Pageable memory is staged by the driver: it is read before the call returns, and written before as well.
void copy(void* to, const void* from, std::size_t bytes, Stream* stream) {
  note_copy(to, from, bytes);
  std::shared_ptr<char[]> staged;
  if (is_pageable(from)) {
    staged.reset(new char[bytes]);
    std::memcpy(staged.get(), from, bytes);
  }
  enqueue(stream, {"cudaMemcpyAsync", {{to, bytes, true}, {from, bytes, false}}, [=] {
                     std::memcpy(reachable(to), staged ? staged.get() : reachable(from), bytes);
                   }});
  if (is_pageable(to)) synchronize(stream, "a copy to pageable memory");
}

cudaError_t make_stream(cudaStream_t* stream) {
  return guarded([&] { *stream = reinterpret_cast<cudaStream_t>(new_stream(current_device())); });
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) { return *count = settings().devices, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = current_device(), cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  return guarded([&] { exchange_device(device); }) == cudaSuccess ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaDeviceSynchronize() {
  return guarded([] { synchronize_device(current_device(), "cudaDeviceSynchronize"); });
}
const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : last_error().c_str(); }

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return guarded([&] {
    *memory = allocate(current_device(), bytes);
    // Unlike a caching allocator's memory, any stream may use it at once.
    synchronize(current_stream(current_device()), "cudaMalloc");
  });
}
cudaError_t cudaFree(void* memory) {
  return guarded([&] {
    const int device = memory != nullptr ? device_of_memory(memory) : -1;
    if (device >= 0) synchronize_device(device, "cudaFree");
    release(memory);
  });
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return guarded([&] { *memory = allocate_pinned(bytes); });
}
cudaError_t cudaFreeHost(void* memory) {
  return guarded([&] { release_pinned(memory); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return guarded([&] { copy(to, from, bytes, stream_of(stream)); });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return guarded([&] {
    copy(to, from, bytes, stream_of(nullptr));
    synchronize(stream_of(nullptr), "cudaMemcpy");
  });
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return guarded([&] {
    enqueue(stream_of(stream),
            {"cudaMemsetAsync", {{memory, bytes, true}}, [=] { std::memset(reachable(memory), value, bytes); }});
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return *lowest = 0, *highest = -5, cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return make_stream(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return make_stream(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return guarded([&] { destroy(stream_of(stream)); });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return guarded([&] { synchronize(stream_of(stream), "cudaStreamSynchronize"); });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  bool is_done = false;
  const cudaError_t status = guarded([&] { is_done = query(stream_of(stream)); });
  return status != cudaSuccess || is_done ? status : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return guarded([&] { wait(stream_of(stream), event_of(event).mark()); });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return *event = reinterpret_cast<cudaEvent_t>(new Event(current_device())), cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete &event_of(event), cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const cudaError_t status = guarded([&] { event_of(event).record(stream_of(stream)); });
  return status == cudaSuccess ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  bool has_passed = false;
  const cudaError_t status = guarded([&] { has_passed = query(event_of(event).mark()); });
  return status != cudaSuccess || has_passed ? status : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return guarded([&] { synchronize(event_of(event).mark(), "cudaEventSynchronize"); });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return guarded([&] {
    *milliseconds = static_cast<float>(1e3 * (seconds_of(event_of(to).mark()) - seconds_of(event_of(from).mark())));
  });
}

}  // extern "C"
