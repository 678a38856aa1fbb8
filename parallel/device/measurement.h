// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/elapsed_time.h"

// What a run measures of a rank: the times of its work, the memory of its tensors and the speed of its device.
namespace llmtrain {

// Records when a rank's work reaches certain points: on a CPU when the thread does, on a GPU when the stream does on
// which the thread enqueues its work, which is later.
class Moments {
 public:
  explicit Moments(const c10::Device& device) : device_(device) { start_from_now(); }

  // Resets time zero; there must be no noted points.
  void start_from_now() { start_ = Clock::now(); }
  // Records the current point. Does not block.
  void note();
  // Returns the seconds of all points noted since the last call and clears them. Blocks until a GPU has reached the
  // last.
  std::vector<double> take();

 private:
  using Clock = std::chrono::steady_clock;
  double now() const { return seconds_since(start_); }

  c10::Device device_;
  Clock::time_point start_;
  std::vector<double> seconds_;
  std::vector<c10::Event> events_;  // GPU only
};

// Bytes of the tensors that one thread has allocated and not freed, from the hooks of PyTorch's memory profiler.
class ThreadMemory : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    now_ += size;
    peak_ = std::max(peak_, now_);
    recent_peak_ = std::max(recent_peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t now() const { return now_; }
  std::int64_t peak() const { return peak_; }
  // Since the last restart_peak().
  std::int64_t recent_peak() const { return recent_peak_; }
  void restart_peak() { recent_peak_ = now_; }

 private:
  std::int64_t now_ = 0, peak_ = 0, recent_peak_ = 0;
};

// Watches the thread that constructs it, for its own lifetime.
class MemoryWatch {
 public:
  const ThreadMemory& memory() const { return *memory_; }
  ThreadMemory& memory() { return *memory_; }

 private:
  std::shared_ptr<ThreadMemory> memory_ = std::make_shared<ThreadMemory>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, memory_};
};

// Numbers of a normal distribution, the same at every call, as operands of what is measured. Of ones, a GPU's units
// switch so little that it runs at a clock rate that no training sees (Horace He, "Strangely, matrix multiplications on
// GPUs run faster when given predictable data", 2024).
at::Tensor random_operand(at::IntArrayRef sizes, c10::ScalarType type, const c10::Device& device);

// FLOP/s that this device reaches in one large square matrix product of this type, the best of several tries: the peak
// that a run's MFU refers to. Takes about a tenth of a second; blocks.
double measure_matmul_rate(const c10::Device& device, c10::ScalarType type);

}  // namespace llmtrain
