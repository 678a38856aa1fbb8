// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/mpirun/child_processes.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace llmtrain::app {

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code failed;
  const std::filesystem::directory_iterator end;
  // Each thread lists those that it has started. One that has ended meanwhile ends the search.
  for (std::filesystem::directory_iterator thread("/proc/" + std::to_string(process) + "/task", failed);
       !failed && thread != end; thread.increment(failed)) {
    std::ifstream list(thread->path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

}  // namespace llmtrain::app
