// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/cuda_part.h"

#include <dlfcn.h>

#include <filesystem>

namespace llmtrain {
namespace {

// The folder of the library that contains this code: the CUDA part is installed beside it.
std::filesystem::path library_folder() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&library_folder), &info);
  return std::filesystem::path(info.dli_fname).parent_path();
}

CudaPart load_cuda_part() {
  const auto library = library_folder() / "libllmtrain_cuda.so";
  if (!std::filesystem::exists(library))
    return {nullptr, "this build has no CUDA part: rebuild it where the CUDA toolkit is installed"};
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return {nullptr, std::string("the CUDA part cannot be loaded: ") + ::dlerror()};
  using Entry = const LlmtrainCudaInterface* (*)();
  const auto* interface = reinterpret_cast<Entry>(::dlsym(handle, "llmtrain_cuda_interface"))();
  if (interface->device_count() == 0) return {nullptr, "no GPU was found, or its driver does not respond"};
  kernels::use_kernels(*interface->kernels);
  return {interface, ""};
}

}  // namespace

const CudaPart& cuda_part() {
  static const CudaPart part = load_cuda_part();
  return part;
}

}  // namespace llmtrain
