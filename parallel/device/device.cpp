// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/machine/processor.h"
#include "parallel/device/cpu_allocator.h"
#include "parallel/device/cuda_part.h"
#include "parallel/device/device_runtime.h"

namespace llmtrain {

c10::Device choose_device(DeviceKind kind, std::int64_t local_rank) {
  if (kind == DeviceKind::cpu) return c10::kCPU;
  // Without the driver's device file there is no GPU: do not load half a gigabyte only to find that out.
  const bool has_driver = std::filesystem::exists("/dev/nvidiactl");
  if (kind == DeviceKind::automatic && !has_driver) return c10::kCPU;
  if (cuda_part().interface != nullptr) {
    const std::int64_t number = local_rank % cuda_part().interface->device_count();
    return {c10::kCUDA, static_cast<c10::DeviceIndex>(number)};
  }
  if (kind == DeviceKind::automatic) return c10::kCPU;
  throw Error(ExitCode::bad_recipe, "/cluster/device: \"cuda\": " + cuda_part().reason + "; use \"cpu\" or \"auto\"");
}

std::string reason_without_gpu() { return cuda_part().reason; }

int gpu_count() { return cuda_part().interface != nullptr ? cuda_part().interface->device_count() : 0; }

void use_device(const c10::Device& device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

void allow_tf32(bool is_allowed) { at::globalContext().setFloat32MatmulPrecision(is_allowed ? "high" : "highest"); }

std::array<unsigned char, 16> gpu_id(const c10::Device& device) {
  LlmtrainCudaDevice properties{};
  cuda_part().interface->describe(device.index(), &properties);
  return std::to_array(properties.id);
}

StreamOfThread gpu_compute_stream() {
  return [](int device) {
    const c10::Device gpu(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
    return runtime_of(gpu).native_stream(gpu);
  };
}

std::string describe_gpu() {
  return cuda_part().interface != nullptr ? describe_device({c10::kCUDA, 0}) : cuda_part().reason;
}

std::string describe_device(const c10::Device& device) {
  if (device.is_cpu()) {
    const int threads = at::get_num_threads();
    return "CPU, " + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + at::get_cpu_capability();
  }
  LlmtrainCudaDevice properties{};
  cuda_part().interface->describe(device.index(), &properties);
  return std::string(properties.name) + ", " + format_bytes(properties.memory_bytes) + ", " + device.str();
}

void prepare_process(std::int64_t ranks) {
  pool_cpu_tensors();
  // OpenMP has already read the variable; the user's choice wins.
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  at::set_num_threads(static_cast<int>(std::max<std::int64_t>(1, usable_cores() / ranks)));
}

// LibTorch's thread count is per thread: each new thread has to adopt the process's number before it computes.
void prepare_rank_thread() { at::init_num_threads(); }

void synchronize(const c10::Device& device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

std::int64_t memory_peak(const c10::Device& device) { return runtime_of(device).memory(device).peak; }

}  // namespace llmtrain
