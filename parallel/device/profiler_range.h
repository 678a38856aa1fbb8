// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace llmtrain {

// A range of this thread's time with a name, from its construction to its destruction, which profilers such as Nsight
// Systems draw above the kernels that the thread starts meanwhile. Ranges nest and are in the NVTX domain "llmtrain"
// (https://nvidia.github.io/NVTX). Never fails; without a profiler a range takes a few nanoseconds, and a build
// without a CUDA toolkit has none.
class ProfilerRange {
 public:
  [[nodiscard]] explicit ProfilerRange(const std::string& name) { begin(name); }
  ~ProfilerRange() { end(); }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  static void begin(const std::string& name);
  static void end();
};

// What profilers call this thread.
void name_profiler_thread(const std::string& name);

}  // namespace llmtrain
