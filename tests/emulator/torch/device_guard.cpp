// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/torch/device_guard.h"

namespace emulated {
namespace {

c10::Device device_at(int index) { return {device_type, static_cast<c10::DeviceIndex>(index)}; }
int index_of(c10::Device d) { return d.index() < 0 ? current_device() : d.index(); }
const MarkPointer& mark_of(void* event) { return static_cast<Event*>(event)->mark(); }

}  // namespace

c10::Stream wrap(Stream* stream) {
  return c10::Stream(c10::Stream::UNSAFE, device_at(device_of(stream)), static_cast<c10::StreamId>(id_of(stream)));
}

// LibTorch's id 0 is every device's default stream.
Stream* unwrap(const c10::Stream& stream) {
  return stream.id() == 0 ? default_stream(index_of(stream.device())) : find_stream(stream.id());
}

c10::Device DeviceGuard::exchangeDevice(c10::Device d) const { return device_at(exchange_device(index_of(d))); }
c10::Device DeviceGuard::getDevice() const { return device_at(current_device()); }
void DeviceGuard::setDevice(c10::Device d) const { exchange_device(index_of(d)); }
void DeviceGuard::uncheckedSetDevice(c10::Device d) const noexcept { exchange_device(index_of(d)); }
c10::DeviceIndex DeviceGuard::deviceCount() const noexcept { return static_cast<c10::DeviceIndex>(settings().devices); }

c10::Stream DeviceGuard::getStream(c10::Device d) const { return wrap(current_stream(index_of(d))); }
c10::Stream DeviceGuard::getDefaultStream(c10::Device d) const { return wrap(default_stream(index_of(d))); }
c10::Stream DeviceGuard::getStreamFromGlobalPool(c10::Device d, bool) const { return wrap(pool_stream(index_of(d))); }
c10::Stream DeviceGuard::getNewStream(c10::Device d, int) const { return wrap(pool_stream(index_of(d))); }
c10::Stream DeviceGuard::exchangeStream(c10::Stream s) const { return wrap(exchange_stream(unwrap(s))); }
void* DeviceGuard::getStreamNativeHandle(c10::Stream s) const { return unwrap(s); }
bool DeviceGuard::queryStream(const c10::Stream& s) const { return query(unwrap(s)); }
void DeviceGuard::synchronizeStream(const c10::Stream& s) const { emulated::synchronize(unwrap(s), "a stream"); }
void DeviceGuard::synchronizeDevice(c10::DeviceIndex d) const { emulated::synchronize_device(d, "the device"); }
void DeviceGuard::recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& s) const {
  record_use(data.get(), unwrap(s));
}

void DeviceGuard::record(void** event, const c10::Stream& s, c10::DeviceIndex device, c10::EventFlag) const {
  Stream* const stream = unwrap(s);
  if (*event == nullptr) *event = new Event(device < 0 ? device_of(stream) : device);
  static_cast<Event*>(*event)->record(stream);
}

void DeviceGuard::block(void* event, const c10::Stream& s) const {
  if (event != nullptr) emulated::wait(unwrap(s), mark_of(event));
}

bool DeviceGuard::queryEvent(void* event) const { return event == nullptr || emulated::query(mark_of(event)); }

void DeviceGuard::synchronizeEvent(void* event) const {
  if (event != nullptr) emulated::synchronize(mark_of(event), "an event");
}

void DeviceGuard::destroyEvent(void* event, c10::DeviceIndex) const noexcept { delete static_cast<Event*>(event); }

double DeviceGuard::elapsedTime(void* from, void* to, c10::DeviceIndex) const {
  return 1e3 * (seconds_of(mark_of(to)) - seconds_of(mark_of(from)));
}

}  // namespace emulated
