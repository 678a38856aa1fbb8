// SPDX-License-Identifier: Apache-2.0
// On the CPU, and on the emulated GPU through its CUDA part, which lies beside this program and is loaded as the
// program loads it.
#include "parallel/device/device_runtime.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <catch2/catch.hpp>

#include "parallel/device/device.h"
#include "parallel/device/measurement.h"

using namespace llmtrain;

namespace {

c10::Device device_of(DeviceKind kind) { return choose_device(kind); }

at::Tensor full(double value, const c10::Device& device) {
  return at::full({1000}, value, at::TensorOptions(at::kFloat).device(device));
}

bool is_all(const at::Tensor& values, double value) { return values.cpu().equal(at::full({1000}, value, at::kFloat)); }

}  // namespace

TEST_CASE("Captured work runs at each launch, with what its memory then holds") {
  const c10::Device device = device_of(GENERATE(DeviceKind::cpu, DeviceKind::cuda));
  const at::Tensor input = full(1, device), sum = full(0, device);
  const auto captured = runtime_of(device).capture(device, [&] {
    const at::Tensor doubled = input.mul(2);
    sum.add_(doubled);
  });
  // What is captured on a GPU does not run.
  CHECK(is_all(sum, 0));
  captured->launch();
  input.fill_(5);
  captured->launch();
  CHECK(is_all(sum, 12));
}

TEST_CASE("Captured work follows what its stream holds, and is followed by what comes next") {
  const c10::Device device = device_of(DeviceKind::cuda);
  const c10::impl::VirtualGuardImpl streams(device.type());
  const c10::Stream other = streams.getStreamFromGlobalPool(device);
  const at::Tensor values = full(1, device);
  synchronize(device);
  const auto captured = runtime_of(device).capture(device, [&] { values.mul_(3); });
  // A race of the streams would throw.
  values.add_(1);
  captured->launch();
  values.add_(1);
  CHECK(is_all(values, 7));
  {
    synchronize(device);
    const c10::StreamGuard guard(other);
    captured->launch();
    CHECK(is_all(values, 21));
  }
}

TEST_CASE("Work that is captured beside other work may have its memory") {
  const c10::Device device = device_of(GENERATE(DeviceKind::cpu, DeviceKind::cuda));
  const at::Tensor input = full(1, device), output = full(0, device);
  at::Tensor kept;
  const void* freed = nullptr;
  const auto first = runtime_of(device).capture(device, [&] {
    const at::Tensor passing = input.mul(2);
    freed = passing.data_ptr();
    kept = passing.add(1);
  });
  const auto second = runtime_of(device).capture(
      device,
      [&] {
        const at::Tensor passing = kept.mul(10);
        if (device.is_cuda()) CHECK(passing.data_ptr() == freed);
        output.copy_(passing);
      },
      first.get());
  for (const double value : {1.0, 3.0}) {
    input.fill_(value);
    first->launch();
    second->launch();
    CHECK(is_all(output, 20 * value + 10));
  }
}

TEST_CASE("What the allocator keeps is given back, and the memory of captured work is not") {
  const c10::Device device = device_of(DeviceKind::cuda);
  const at::Tensor values = full(1, device);
  const auto captured = runtime_of(device).capture(device, [&] { values.add_(values.mul(2)); });
  runtime_of(device).release_cached_memory(device);
  captured->launch();
  CHECK(is_all(values, 3));
}

TEST_CASE("An error while work is captured leaves the device usable") {
  const c10::Device device = device_of(DeviceKind::cuda);
  const at::Tensor values = full(1, device);
  // Waiting is forbidden meanwhile: the values do not exist.
  CHECK_THROWS(runtime_of(device).capture(device, [&] { values.add_(1).cpu(); }));
  CHECK(is_all(values, 1));
}

TEST_CASE("A device tells its memory and its thread's stream") {
  const c10::Device gpu = device_of(DeviceKind::cuda), cpu(c10::kCPU);
  CHECK(runtime_of(cpu).native_stream(cpu) == nullptr);
  CHECK(runtime_of(cpu).memory(cpu).total > runtime_of(cpu).memory(cpu).peak);

  const c10::impl::VirtualGuardImpl streams(gpu.type());
  void* const usual = runtime_of(gpu).native_stream(gpu);
  CHECK(usual == streams.getStreamNativeHandle(streams.getStream(gpu)));
  const c10::StreamGuard guard(streams.getStreamFromGlobalPool(gpu));
  CHECK(runtime_of(gpu).native_stream(gpu) != usual);

  const std::int64_t before = runtime_of(gpu).memory(gpu).peak;
  constexpr std::int64_t large = std::int64_t{64} << 20;
  at::empty({large}, at::TensorOptions(at::kByte).device(gpu));
  CHECK(runtime_of(gpu).memory(gpu).peak >= before + large / 2);
  CHECK(runtime_of(gpu).memory(gpu).peak < runtime_of(gpu).memory(gpu).total);
}

TEST_CASE("A rate is measured with operands that are not all alike") {
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
    const c10::Device device = device_of(kind);
    const at::Tensor operand = random_operand({64, 64}, at::kBFloat16, device).cpu().to(at::kFloat);
    CHECK(std::abs(operand.std().item<double>() - 1) < 0.1);
    CHECK(operand.equal(random_operand({64, 64}, at::kBFloat16, device).cpu().to(at::kFloat)));
    CHECK(measure_matmul_rate(device, at::kFloat) > 0);
  }
}

TEST_CASE("A GPU's peak starts again from what is allocated, and that of the process stays") {
  const c10::Device gpu = device_of(DeviceKind::cuda);
  const DeviceRuntime& runtime = runtime_of(gpu);
  constexpr std::int64_t mebibyte = 1 << 20;
  const auto allocate = [&](std::int64_t bytes) { return at::empty({bytes}, at::TensorOptions(gpu).dtype(at::kByte)); };
  runtime.restart_peak(gpu);
  const std::int64_t before = runtime.recent_peak(gpu);
  const at::Tensor kept = allocate(mebibyte);
  allocate(2 * mebibyte);
  CHECK(runtime.recent_peak(gpu) == before + 3 * mebibyte);
  const std::int64_t most = runtime.memory(gpu).peak;
  runtime.restart_peak(gpu);
  CHECK(runtime.recent_peak(gpu) == before + mebibyte);
  CHECK(runtime.memory(gpu).peak == most);
  allocate(mebibyte);
  CHECK(runtime.recent_peak(gpu) == before + 2 * mebibyte);
}
