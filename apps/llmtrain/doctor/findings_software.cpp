// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "apps/llmtrain/doctor/findings.h"
#include "apps/llmtrain/runtime.h"
#include "core/machine/system_file.h"
#include "core/signals/signal_thread.h"

namespace llmtrain::app {
namespace {

#ifdef __clang__
constexpr const char* compiler = "Clang " __clang_version__;
#else
constexpr const char* compiler = "GCC " __VERSION__;
#endif

void find_runtime(std::vector<Finding>& findings) {
  try {
    const RuntimeVersions versions = load_runtime().versions();
    findings.push_back({FindingState::ok, "LibTorch", versions.libtorch + ", " + versions.cpu, ""});
    findings.push_back({FindingState::ok, "GPU", versions.cuda_device, ""});
  } catch (const std::exception& error) {
    // The program itself runs without LibTorch; training does not.
    findings.push_back({FindingState::missing, "LibTorch", error.what(), "scripts/setup && scripts/build"});
  }
}

std::string on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = std::filesystem::path(folder) / program;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

void find_driver(std::vector<Finding>& findings) {
  const std::string version = value_in("/proc/driver/nvidia/version", "NVRM version");
  findings.push_back(version.empty() ? Finding{FindingState::ok, "NVIDIA driver", "none; training uses the CPU", ""}
                                     : Finding{FindingState::ok, "NVIDIA driver", version, ""});
}

// The first line containing `word` in the output of a command.
std::string output_line(const char* command, const char* word) {
  const InheritedSignals inherited;  // the command's, too
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command, "r"), ::pclose);
  std::array<char, 256> buffer{};
  while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) {
    const std::string line(buffer.data());
    if (line.find(word) != std::string::npos) return line.substr(0, line.find('\n'));
  }
  return "";
}

void find_toolkit(std::vector<Finding>& findings) {
  const std::string line =
      output_line("nvcc --version 2>/dev/null || /usr/local/cuda/bin/nvcc --version 2>/dev/null", "release");
  findings.push_back(line.empty()
                         ? Finding{FindingState::ok, "CUDA toolkit", "none; only a build for GPUs needs it", ""}
                         : Finding{FindingState::ok, "CUDA toolkit", line.substr(line.find("release")), ""});
}

void find_mpi(std::vector<Finding>& findings) {
  const std::string file = on_path("mpirun");
  if (file.empty()) {
    findings.push_back({FindingState::note, "MPI", "mpirun is not on PATH; only runs of several processes need it",
                        "apt-get install openmpi-bin libopenmpi-dev"});
    return;
  }
  const std::string version = output_line("mpirun --version 2>/dev/null", "");
  findings.push_back({FindingState::ok, "MPI", (version.empty() ? "of unknown version" : version) + ", " + file, ""});
}

}  // namespace

void find_software(std::vector<Finding>& findings) {
  findings.push_back({FindingState::ok, "llmtrain", fmt::format("{}, built by {}", LLMTRAIN_VERSION, compiler), ""});
  find_runtime(findings);
  find_driver(findings);
  find_toolkit(findings);
  find_mpi(findings);
}

}  // namespace llmtrain::app
