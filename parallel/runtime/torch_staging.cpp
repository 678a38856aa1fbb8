// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/torch_staging.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace llmtrain {
namespace {

class TorchMark final : public StagingDevice::Mark {
 public:
  explicit TorchMark(const c10::Stream& stream) : event_(stream.device_type()) { event_.record(stream); }

  bool has_passed() const override { return event_.query(); }
  void hold(const c10::Stream& stream) const { event_.block(stream); }

 private:
  c10::Event event_;
};

const TorchMark& torch_mark(const StagingDevice::Mark& mark) { return static_cast<const TorchMark&>(mark); }

// See make_torch_staging().
class TorchStagingDevice final : public StagingDevice {
 public:
  explicit TorchStagingDevice(const c10::Device& device)
      : device_(device),
        streams_(device.type()),
        // High-priority streams: copies start ahead of queued computation. One per direction, because PCIe is full
        // duplex.
        out_(streams_.getStreamFromGlobalPool(device, true)),
        in_(streams_.getStreamFromGlobalPool(device, true)) {}

  // Otherwise CUDA would create a context, with its memory, on the first GPU for this thread.
  void enter_thread() override { streams_.setDevice(device_); }

  std::shared_ptr<std::byte> host_memory(std::int64_t bytes) override {
    // Pinned, because only page-locked memory can be copied asynchronously.
    const at::Tensor memory = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(true));
    auto* address = static_cast<std::byte*>(memory.data_ptr());
    return {address, [memory](std::byte*) {}};
  }

  MarkPointer mark_computation() override { return std::make_shared<TorchMark>(streams_.getStream(device_)); }

  void hold_computation(const Mark& mark) override { torch_mark(mark).hold(streams_.getStream(device_)); }

  MarkPointer copy_out(const Mark& after, std::byte* host, const void* device, std::int64_t bytes) override {
    return copy(out_, torch_mark(after), on_host(host, bytes), on_device(const_cast<void*>(device), bytes));
  }

  MarkPointer copy_in(const Mark& after, void* device, const std::byte* host, std::int64_t bytes) override {
    return copy(in_, torch_mark(after), on_device(device, bytes), on_host(const_cast<std::byte*>(host), bytes));
  }

 private:
  static at::Tensor on_host(std::byte* memory, std::int64_t bytes) { return at::from_blob(memory, {bytes}, at::kByte); }
  at::Tensor on_device(void* memory, std::int64_t bytes) const {
    return at::from_blob(memory, {bytes}, at::TensorOptions(at::kByte).device(device_));
  }

  static MarkPointer copy(const c10::Stream& stream, const TorchMark& after, const at::Tensor& to,
                          const at::Tensor& from) {
    after.hold(stream);
    const c10::StreamGuard guard(stream);
    // Non-blocking: the mark reports the end, and the caller keeps the memory until then.
    to.copy_(from, true);
    return std::make_shared<TorchMark>(stream);
  }

  c10::Device device_;
  c10::impl::VirtualGuardImpl streams_;
  c10::Stream out_, in_;
};

}  // namespace

std::unique_ptr<StagingDevice> make_torch_staging(const c10::Device& device) {
  return std::make_unique<TorchStagingDevice>(device);
}

}  // namespace llmtrain
