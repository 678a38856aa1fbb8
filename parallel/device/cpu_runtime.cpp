// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <string>
#include <utility>

#include "core/machine/host_memory.h"
#include "parallel/device/runtimes.h"

namespace llmtrain {
namespace {

// The largest resident memory since the process started.
std::int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

class KeptWork final : public CapturedWork {
 public:
  explicit KeptWork(std::function<void()> work) : work_(std::move(work)) {}
  void launch() override { work_(); }

 private:
  std::function<void()> work_;
};

class CpuRuntime final : public DeviceRuntime {
 public:
  void* native_stream(const c10::Device&) const override { return nullptr; }
  DeviceMemory memory(const c10::Device&) const override {
    return {static_cast<std::int64_t>(host_memory().total), peak_resident_bytes()};
  }
  std::int64_t recent_peak(const c10::Device&) const override { return 0; }
  void restart_peak(const c10::Device&) const override {}
  std::int64_t measuring_size() const override { return 768; }
  double measuring_seconds() const override { return 0.1; }
  std::unique_ptr<CapturedWork> capture(const c10::Device&, const std::function<void()>& work,
                                        const CapturedWork*) const override {
    return std::make_unique<KeptWork>(work);
  }
  // LibTorch's allocator of the processor keeps none.
  void release_cached_memory(const c10::Device&) const override {}
};

}  // namespace

const DeviceRuntime& cpu_runtime() {
  static const CpuRuntime only;
  return only;
}

}  // namespace llmtrain
