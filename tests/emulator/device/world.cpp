// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/world.h"

#include <cstdio>
#include <cstdlib>

#include "tests/emulator/device/fault.h"
#include "tests/emulator/device/report.h"
#include "tests/emulator/device/settings.h"

namespace emulated {

World::World() {
  for (int d = 0; d < settings().devices; ++d) {
    auto device = std::make_unique<Device>();
    device->arena = protection.make_device_arena();
    device->unused.give(device->arena.base, Arena::bytes);
    devices.push_back(std::move(device));
  }
  pinned = protection.make_pinned_arena();
  pinned_end = pinned.base;
  std::atexit(write_report);
}

Device& World::device(int index) {
  if (index < 0 || static_cast<std::size_t>(index) >= devices.size())
    throw Fault("there is no device " + std::to_string(index) + ": there are " + std::to_string(devices.size()));
  return *devices[static_cast<std::size_t>(index)];
}

const std::string* World::interned(const std::string& name) { return &*names.insert(name).first; }

World& world() {
  static World* const instance = new World;  // the streams' threads outlive static objects
  return *instance;
}

void DeviceErrors::report(const std::string& error) {
  const std::lock_guard lock(mutex_);
  if (error_.empty()) error_ = error.substr(0, error.find('\n'));  // without LibTorch's backtrace
}

void DeviceErrors::report_overrun(const std::string& overrun) {
  if (settings().throws) report(overrun);
  const std::lock_guard lock(mutex_);
  overruns_.push_back(overrun);
  if (++printed_ <= 20) std::fprintf(stderr, "emulated: %s\n", overrun.c_str());
}

bool DeviceErrors::has_error() const {
  const std::lock_guard lock(mutex_);
  return !error_.empty();
}

void DeviceErrors::raise() const {
  const std::lock_guard lock(mutex_);
  if (!error_.empty()) throw Fault("device error, seen late: " + error_);
}

std::vector<std::string> DeviceErrors::take_overruns() {
  const std::lock_guard lock(mutex_);
  return std::exchange(overruns_, {});
}

}  // namespace emulated
