// SPDX-License-Identifier: Apache-2.0
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "parallel/device/cuda_part.h"
#include "parallel/device/runtimes.h"

namespace llmtrain {
namespace {

const LlmtrainCudaInterface& cuda() { return *cuda_part().interface; }

class CudaGraph final : public CapturedWork {
 public:
  CudaGraph(const c10::Device& device, const std::function<void()>& work) : device_(device) {
    // CUDA captures no work of the default stream. This one has nothing to wait for: nothing runs on it.
    const c10::StreamGuard guard(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
    graph_ = cuda().begin_capture(device.index());
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
  std::int64_t measuring_size() const override { return cuda().measuring_size(); }
  double measuring_seconds() const override { return cuda().measuring_seconds(); }
  std::unique_ptr<CapturedWork> capture(const c10::Device& device, const std::function<void()>& work) const override {
    return std::make_unique<CudaGraph>(device, work);
  }
};

}  // namespace

const DeviceRuntime& cuda_runtime() {
  static const CudaRuntime only;
  return only;
}

const DeviceRuntime& runtime_of(const c10::Device& device) { return device.is_cpu() ? cpu_runtime() : cuda_runtime(); }

}  // namespace llmtrain
