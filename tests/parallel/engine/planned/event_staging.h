// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>

#include "parallel/comm/staged/staged_world.h"

namespace llmtrain::test {

// Stages a GPU's memory, on one stream for both directions.
class EventStaging final : public StagingDevice {
 public:
  explicit EventStaging(const c10::Device& device)
      : device_(device), streams_(device.type()), copies_(streams_.getStreamFromGlobalPool(device, false)) {}

  void enter_thread() override { streams_.setDevice(device_); }
  std::shared_ptr<std::byte> host_memory(std::int64_t bytes) override {
    const at::Tensor memory = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(true));
    return {static_cast<std::byte*>(memory.data_ptr()), [memory](std::byte*) {}};
  }
  MarkPointer mark_computation() override { return std::make_shared<EventMark>(streams_.getStream(device_)); }
  void hold_computation(const Mark& mark) override { hold(mark, streams_.getStream(device_)); }
  MarkPointer copy_out(const Mark& after, std::byte* host, const void* device, std::int64_t bytes) override {
    return copy(after, on_host(host, bytes), on_device(const_cast<void*>(device), bytes));
  }
  MarkPointer copy_in(const Mark& after, void* device, const std::byte* host, std::int64_t bytes) override {
    return copy(after, on_device(device, bytes), on_host(const_cast<std::byte*>(host), bytes));
  }

 private:
  class EventMark final : public Mark {
   public:
    explicit EventMark(const c10::Stream& stream) : event_(stream.device_type()) { event_.record(stream); }
    bool has_passed() const override { return event_.query(); }
    void hold(const c10::Stream& stream) const { event_.block(stream); }

   private:
    c10::Event event_;
  };

  static void hold(const Mark& mark, const c10::Stream& stream) { static_cast<const EventMark&>(mark).hold(stream); }
  static at::Tensor on_host(std::byte* memory, std::int64_t bytes) { return at::from_blob(memory, {bytes}, at::kByte); }
  at::Tensor on_device(void* memory, std::int64_t bytes) const {
    return at::from_blob(memory, {bytes}, at::TensorOptions(at::kByte).device(device_));
  }
  MarkPointer copy(const Mark& after, const at::Tensor& to, const at::Tensor& from) {
    hold(after, copies_);
    const c10::StreamGuard guard(copies_);
    to.copy_(from, true);
    return std::make_shared<EventMark>(copies_);
  }

  c10::Device device_;
  c10::impl::VirtualGuardImpl streams_;
  c10::Stream copies_;
};

}  // namespace llmtrain::test
