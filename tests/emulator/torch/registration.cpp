// SPDX-License-Identifier: Apache-2.0
// Registers the device with LibTorch: its allocator, its guard and its hooks, which are what LibTorch's CPU code asks
// of a device.
#include <ATen/detail/CUDAHooksInterface.h>

#include <cstdlib>

#include "tests/emulator/torch/allocators.h"
#include "tests/emulator/torch/device_guard.h"
#include "tests/emulator/torch/generator.h"

namespace at {

// LibTorch looks its hooks up by this name.
struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}

  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  bool hasCuDNN() const override { return std::getenv("EMULATED_WITHOUT_CUDNN") == nullptr; }
  long versionRuntimeCuDNN() const override { return 91002; }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override { return true; }
  int getNumGPUs() const override { return deviceCount(); }
  DeviceIndex deviceCount() const override { return static_cast<DeviceIndex>(emulated::settings().devices); }
  DeviceIndex current_device() const override { return static_cast<DeviceIndex>(emulated::current_device()); }
  DeviceIndex getCurrentDevice() const override { return current_device(); }
  const Generator& getDefaultGenerator(DeviceIndex d) const override {
    return emulated::default_generator(d < 0 ? emulated::current_device() : d);
  }
  Generator getNewGenerator(DeviceIndex d) const override {
    return emulated::new_generator(d < 0 ? emulated::current_device() : d);
  }
  bool isPinnedPtr(const void* memory) const override { return emulated::is_pinned(memory); }
  Allocator* getPinnedMemoryAllocator() const override { return &emulated::pinned_allocator(); }
  Device getDeviceFromPtr(void* memory) const override {
    return {emulated::device_type, static_cast<DeviceIndex>(emulated::device_of_memory(memory))};
  }
  void deviceSynchronize(DeviceIndex d) const override { emulated::synchronize_device(d, "the device"); }
};

}  // namespace at

namespace emulated {
namespace {

// Before anything asks for hooks, which LibTorch then keeps.
[[maybe_unused]] const bool is_registered = [] {
  constexpr std::uint8_t priority = 100;
  c10::SetAllocator(device_type, &device_allocator(), priority);
  c10::impl::registerDeviceGuard(device_type, new DeviceGuard);
  at::CUDAHooksRegistry()->Register("CUDAHooks",
                                    [](at::CUDAHooksArgs arguments) -> std::unique_ptr<at::CUDAHooksInterface> {
                                      return std::make_unique<at::CUDAHooks>(arguments);
                                    });
  return true;
}();

}  // namespace
}  // namespace emulated
