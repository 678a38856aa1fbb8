// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/parts.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "core/base/error.h"

namespace llmtrain {
namespace {

constexpr const char* mpi_file = "libllmtrain_mpi.so";
constexpr const char* nccl_file = "libllmtrain_nccl.so";

// Parts are installed beside the library that contains this code.
std::filesystem::path part(const char* file) {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&part), &info);
  return std::filesystem::path(info.dli_fname).parent_path() / file;
}

// The function of that name in a part. RTLD_GLOBAL, because MPI's plug-ins look up MPI's symbols globally.
template <class Function>
Function* find(const char* file, const char* name, const std::string& instead) {
  void* library = ::dlopen(part(file).c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    throw Error(ExitCode::missing_input, std::string(file) + " cannot be loaded: " + ::dlerror() + "; " + instead);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

bool has_mpi_part() { return std::filesystem::exists(part(mpi_file)); }

bool has_nccl_part() { return std::filesystem::exists(part(nccl_file)); }

std::unique_ptr<Communicator> join_mpi(double watchdog_seconds) {
  const auto join = find<Communicator*(double)>(mpi_file, "llmtrain_join_mpi_world",
                                                "install Open MPI, or set launch.backend to \"local\"");
  return std::unique_ptr<Communicator>(join(watchdog_seconds));
}

std::unique_ptr<Communicator> join_nccl(const NcclJoin& join) {
  const auto join_world = find<decltype(llmtrain_join_nccl_world)>(nccl_file, "llmtrain_join_nccl_world",
                                                                   "install NCCL, or set launch.backend to \"mpi\"");
  return std::unique_ptr<Communicator>(join_world(join));
}

}  // namespace llmtrain
