// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/torch/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

// Draws a seed for each launch.
class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  explicit DeviceGenerator(int device, const at::Generator& seeds = at::detail::createCPUGenerator())
      : GeneratorImpl({emulated::device_type, static_cast<c10::DeviceIndex>(device)},
                      c10::DispatchKeySet(c10::DispatchKey::CUDA)),
        seeds_(seeds) {}
  static c10::DeviceType device_type() { return emulated::device_type; }

  std::uint64_t next_seed() {
    const std::lock_guard lock(mutex_);
    return seeds_.get<at::CPUGeneratorImpl>()->random64();
  }

  void set_current_seed(std::uint64_t seed) override { seeds_.set_current_seed(seed); }
  std::uint64_t current_seed() const override { return seeds_.current_seed(); }
  std::uint64_t seed() override { return seeds_.get<at::CPUGeneratorImpl>()->seed(); }
  void set_offset(std::uint64_t) override { TORCH_CHECK(false, "the emulated generator has no offset"); }
  std::uint64_t get_offset() const override { TORCH_CHECK(false, "the emulated generator has no offset"); }
  void set_state(const c10::TensorImpl& state) override { seeds_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return seeds_.unsafeGetGeneratorImpl()->get_state();
  }

 private:
  DeviceGenerator* clone_impl() const override { return new DeviceGenerator(device().index(), seeds_.clone()); }

  at::Generator seeds_;
};

}  // namespace

const at::Generator& default_generator(int device) {
  static const auto* const all = [] {
    auto* const made = new std::vector<at::Generator>;
    for (int d = 0; d < settings().devices; ++d) made->push_back(new_generator(d));
    return made;
  }();
  return all->at(static_cast<std::size_t>(device));
}

at::Generator new_generator(int device) { return at::make_generator<DeviceGenerator>(device); }

at::Generator take_for_launch(const at::Generator& generator) {
  return at::detail::createCPUGenerator(generator.get<DeviceGenerator>()->next_seed());
}

}  // namespace emulated
