// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/runtime.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "apps/llmtrain/installation.h"
#include "apps/llmtrain/stack_limit.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace llmtrain::app {
namespace {

// The runtime is a library of its own, so that commands which need no LibTorch start in milliseconds and run without
// it.
std::vector<std::string> candidates() {
  std::vector<std::string> files;
  for (const auto& folder : runtime_folders()) {
    const auto file = folder / "libllmtrain_runtime.so";
    // If the runtime is in none of the places where it may lie, the message names the first.
    if (files.empty() || std::filesystem::exists(file)) files.push_back(file);
  }
  const char* named = std::getenv("LLMTRAIN_RUNTIME");
  if (named != nullptr && *named != '\0') files.push_back(std::filesystem::absolute(named));
  return files;
}

// OpenMP's threads wait for their next loop awake, for milliseconds unless told otherwise, and take cores from other
// processes and ranks meanwhile: beside busy ones a step then takes several times its share. This many turns (some 50
// microseconds) cover the time between the loops of an operator and of the next. libgomp reads it when it is loaded.
void wait_briefly() {
  constexpr const char* turns = "3000";
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", turns, 0);  // 0: a value that is set stays
}

#ifndef LLMTRAIN_SANITIZED
// LibTorch takes back its thousands of operators one by one when a process ends, a seventh of the processor time of a
// short command. What was constructed since it was loaded, ours, is destroyed before this is called; the sanitizers
// look for leaks behind it.
void end_without_the_rest(int status, void*) {
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(status);
}
#endif

// Not beside a profiler or another library that the caller has loaded with the program: it may write what it has found
// when the process ends.
void skip_destructors_of_what_is_loaded() {
#ifndef LLMTRAIN_SANITIZED
  for (const char* loaded : {"LD_PRELOAD", "LD_AUDIT", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"})
    if (std::getenv(loaded) != nullptr) return;
  ::on_exit(end_without_the_rest, nullptr);
#endif
}

}  // namespace

bool has_runtime() { return std::ranges::any_of(candidates(), path_exists); }

RuntimeInterface& load_runtime() {
  raise_stack_limit();
  wait_briefly();
  std::string reasons;
  for (const std::string& file : candidates()) {
    // LibTorch's own libraries resolve each other's symbols globally.
    if (void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
      using Entry = RuntimeInterface* (*)();
      if (auto* entry = reinterpret_cast<Entry>(::dlsym(library, "llmtrain_runtime"))) {
        skip_destructors_of_what_is_loaded();
        return *entry();
      }
    }
    const char* reason = ::dlerror();
    reasons += (reasons.empty() ? "" : "; ") + (reason != nullptr ? std::string(reason) : file);
  }
  throw Error(ExitCode::missing_input, "the training runtime cannot be loaded: " + reasons +
                                           "; run scripts/setup and scripts/build where llmtrain's sources are (they "
                                           "install LibTorch), or set LLMTRAIN_RUNTIME to a libllmtrain_runtime.so");
}

}  // namespace llmtrain::app
