// SPDX-License-Identifier: Apache-2.0
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>

#include "parallel/device/cuda_part.h"
#include "parallel/device/runtimes.h"

namespace llmtrain {
namespace {

const LlmtrainCudaInterface& cuda() { return *cuda_part().interface; }

// On which the calling thread captures; nothing runs on it, so that nobody waits for it. CUDA captures no work of the
// default stream. Always the same one: LibTorch keeps a workspace of cuBLAS for each stream, and gives memory that was
// freed on one stream to no other.
c10::Stream capture_stream(const c10::Device& device) {
  thread_local std::map<c10::DeviceIndex, c10::Stream> streams;
  const auto place = streams.find(device.index());
  if (place != streams.end()) return place->second;
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  return streams.emplace(device.index(), stream).first->second;
}

class CudaGraph final : public CapturedWork {
 public:
  CudaGraph(const c10::Device& device, const std::function<void()>& work, const CudaGraph* beside) : device_(device) {
    const c10::StreamGuard guard(capture_stream(device));
    graph_ = cuda().begin_capture(device.index(), beside != nullptr ? beside->graph_ : nullptr);
    try {
      work();
      cuda().end_capture(graph_);
    } catch (...) {
      cuda().destroy_graph(graph_);
      throw;
    }
  }
  ~CudaGraph() override { cuda().destroy_graph(graph_); }

  void launch() override { cuda().launch_graph(graph_, device_.index()); }

 private:
  c10::Device device_;
  void* graph_ = nullptr;
};

class CudaRuntime final : public DeviceRuntime {
 public:
  void* native_stream(const c10::Device& device) const override { return cuda().compute_stream(device.index()); }
  DeviceMemory memory(const c10::Device& device) const override {
    LlmtrainCudaDevice properties{};
    cuda().describe(device.index(), &properties);
    return {properties.memory_bytes, cuda().peak_allocated_bytes(device.index())};
  }
  std::int64_t recent_peak(const c10::Device& device) const override {
    return cuda().recent_peak_allocated_bytes(device.index());
  }
  void restart_peak(const c10::Device& device) const override { cuda().restart_peak(device.index()); }
  std::int64_t measuring_size() const override { return cuda().measuring_size(); }
  double measuring_seconds() const override { return cuda().measuring_seconds(); }
  std::unique_ptr<CapturedWork> capture(const c10::Device& device, const std::function<void()>& work,
                                        const CapturedWork* beside) const override {
    return std::make_unique<CudaGraph>(device, work, static_cast<const CudaGraph*>(beside));
  }
  void release_cached_memory(const c10::Device& device) const override { cuda().release_cached_memory(device.index()); }
};

}  // namespace

const DeviceRuntime& cuda_runtime() {
  static const CudaRuntime only;
  return only;
}

const DeviceRuntime& runtime_of(const c10::Device& device) { return device.is_cpu() ? cpu_runtime() : cuda_runtime(); }

}  // namespace llmtrain
