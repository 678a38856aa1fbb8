// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace llmtrain {

// Bytes of the tensors that one thread has allocated and not freed, from the hooks of PyTorch's memory profiler.
class ThreadMemory : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    now_ += size;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t now() const { return now_; }
  std::int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = now_; }

 private:
  std::int64_t now_ = 0, peak_ = 0;
};

// Watches the thread that constructs it, for its own lifetime.
class MemoryWatch {
 public:
  ThreadMemory& memory() { return *memory_; }
  const ThreadMemory& memory() const { return *memory_; }

 private:
  std::shared_ptr<ThreadMemory> memory_ = std::make_shared<ThreadMemory>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, memory_};
};

}  // namespace llmtrain
