// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/torch/allocators.h"

#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

c10::Device device_of(int index) { return {device_type, static_cast<c10::DeviceIndex>(index)}; }

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    const int device = current_device();
    void* memory = nullptr;
    try {
      memory = emulated::allocate(device, bytes);
    } catch (const OutOfMemory& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    }
    if (memory != nullptr && c10::memoryProfilingEnabled())
      tell_profiler(memory, static_cast<std::int64_t>(bytes), device);
    return {memory, memory, &free_memory, device_of(device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_memory; }
  void copy_data(void*, const void*, std::size_t) const override { TORCH_CHECK(false, "copy_data of device memory"); }

 private:
  static void free_memory(void* memory) {
    if (memory == nullptr || !c10::memoryProfilingEnabled()) return release(memory);
    const int device = device_of_memory(memory);
    const auto bytes = static_cast<std::int64_t>(bytes_of(memory));
    release(memory);
    tell_profiler(memory, -bytes, device);
  }
  static void tell_profiler(void* memory, std::int64_t bytes, int device) {
    const Counters& c = counters(device);
    c10::reportMemoryUsageToProfiler(memory, bytes, static_cast<std::size_t>(c.allocated),
                                     static_cast<std::size_t>(c.reserved), device_of(device));
  }
};

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const memory = allocate_pinned(bytes);
    return {memory, memory, &release_pinned, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_pinned; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

c10::Allocator& device_allocator() {
  static auto* const instance = new DeviceAllocator;  // tensors outlive static objects
  return *instance;
}

c10::Allocator& pinned_allocator() {
  static auto* const instance = new PinnedAllocator;
  return *instance;
}

}  // namespace emulated
