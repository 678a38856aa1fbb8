// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace llmtrain {

// Bytes of one device.
struct DeviceMemory {
  std::int64_t total = 0;  // that the device has; of a CPU the host's
  // The most that has been in use since the process started: resident memory, or on a GPU what LibTorch has allocated.
  std::int64_t peak = 0;
};

// Work that was captured once and can be enqueued again as a whole: the same operations on the same memory. It keeps
// the memory of tensors that were made meanwhile, and no other.
class CapturedWork {
 public:
  CapturedWork() = default;
  virtual ~CapturedWork() = default;
  CapturedWork(const CapturedWork&) = delete;  // a device's graph
  CapturedWork& operator=(const CapturedWork&) = delete;

  // Enqueues the work on the calling thread's current stream of the device. Does not block on a GPU.
  virtual void launch() = 0;
};

// What differs between kinds of devices and LibTorch's generic streams, events and guards (c10) do not offer. Nothing
// else of a device's own runtime is called, but by the layers of communication. Thread-safe.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  // The cudaStream_t on which the calling thread enqueues its work; null on a CPU.
  virtual void* native_stream(const c10::Device& device) const = 0;
  virtual DeviceMemory memory(const c10::Device& device) const = 0;
  // What LibTorch has allocated of a GPU at most since the last restart_peak(), or since the process started. Nothing
  // of a CPU, whose ranks may be threads (MemoryWatch).
  virtual std::int64_t recent_peak(const c10::Device& device) const = 0;
  virtual void restart_peak(const c10::Device& device) const = 0;
  // Rows and columns of a square matrix product that is large enough to reach the device's peak, and small enough to be
  // tried often.
  virtual std::int64_t measuring_size() const = 0;
  // How long it is tried at most; once at least.
  virtual double measuring_seconds() const = 0;
  // On a GPU runs `work` once, on a stream that captures its operations instead of running them: it must not wait for
  // the device, nor read its memory on the host, nor copy from pageable memory. What it allocates is in memory that
  // nobody else gets; with `beside` in that of earlier work, of which it may get what is free. That is right where the
  // two are launched in the order of their captures, without another launch of the earlier work in between that keeps
  // something in what was free. On a CPU `work` is kept, and runs at every launch().
  virtual std::unique_ptr<CapturedWork> capture(const c10::Device& device, const std::function<void()>& work,
                                                const CapturedWork* beside = nullptr) const = 0;
  // Gives the device what the allocator of tensors keeps for later ones, because work that is captured can have none of
  // it. Waits for a GPU.
  virtual void release_cached_memory(const c10::Device& device) const = 0;
};

// The runtime of this kind of device; for a GPU there must be one (choose_device()).
const DeviceRuntime& runtime_of(const c10::Device& device);

}  // namespace llmtrain
