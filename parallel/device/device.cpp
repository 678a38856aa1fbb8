// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/device.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/machine/processor.h"
#include "parallel/device/cpu_allocator.h"
#include "parallel/device/cuda_interface.h"

namespace llmtrain {
namespace {

// The folder of the library that contains this code: the CUDA part is installed beside it.
std::filesystem::path library_folder() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&library_folder), &info);
  return std::filesystem::path(info.dli_fname).parent_path();
}

struct CudaPart {
  const LlmtrainCudaInterface* interface = nullptr;
  std::string reason;  // why interface is null
};

CudaPart load_cuda_part() {
  const auto library = library_folder() / "libllmtrain_cuda.so";
  if (!std::filesystem::exists(library))
    return {nullptr, "this build has no CUDA part: rebuild it where the CUDA toolkit is installed"};
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return {nullptr, std::string("the CUDA part cannot be loaded: ") + ::dlerror()};
  using Entry = const LlmtrainCudaInterface* (*)();
  const auto* interface = reinterpret_cast<Entry>(::dlsym(handle, "llmtrain_cuda_interface"))();
  if (interface->device_count() == 0) return {nullptr, "no GPU was found, or its driver does not respond"};
  return {interface, ""};
}

const CudaPart& cuda_part() {
  // Loaded at most once per process; never unloaded, because registered operators cannot be removed.
  static const CudaPart part = load_cuda_part();
  return part;
}

// The largest resident memory since the process started.
std::int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

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

void use_device(const c10::Device& device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

std::array<unsigned char, 16> gpu_id(const c10::Device& device) {
  LlmtrainCudaDevice properties{};
  cuda_part().interface->describe(device.index(), &properties);
  return std::to_array(properties.id);
}

StreamOfThread gpu_compute_stream() { return cuda_part().interface->compute_stream; }

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
  if (!device.is_cpu()) cuda_part().interface->synchronize();
}

std::int64_t memory_peak(const c10::Device& device) {
  if (device.is_cpu()) return peak_resident_bytes();
  return cuda_part().interface->peak_allocated_bytes(device.index());
}

}  // namespace llmtrain
