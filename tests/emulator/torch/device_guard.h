// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tests/emulator/torch/backend.h"

namespace emulated {

c10::Stream wrap(Stream* stream);
Stream* unwrap(const c10::Stream& stream);

// LibTorch's streams, events and current device.
struct DeviceGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return device_type; }
  c10::Device exchangeDevice(c10::Device d) const override;
  c10::Device getDevice() const override;
  void setDevice(c10::Device d) const override;
  void uncheckedSetDevice(c10::Device d) const noexcept override;
  c10::DeviceIndex deviceCount() const noexcept override;

  c10::Stream getStream(c10::Device d) const override;
  c10::Stream getDefaultStream(c10::Device d) const override;
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool is_high_priority) const override;
  c10::Stream getNewStream(c10::Device d, int priority) const override;
  c10::Stream exchangeStream(c10::Stream s) const override;
  void* getStreamNativeHandle(c10::Stream s) const override;
  bool queryStream(const c10::Stream& s) const override;
  void synchronizeStream(const c10::Stream& s) const override;
  void synchronizeDevice(c10::DeviceIndex d) const override;
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& s) const override;

  void record(void** event, const c10::Stream& s, c10::DeviceIndex device, c10::EventFlag flag) const override;
  void block(void* event, const c10::Stream& s) const override;
  bool queryEvent(void* event) const override;
  void synchronizeEvent(void* event) const override;
  void destroyEvent(void* event, c10::DeviceIndex device) const noexcept override;
  double elapsedTime(void* from, void* to, c10::DeviceIndex device) const override;
};

}  // namespace emulated
