// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "apps/llmtrain/doctor/findings.h"
#include "core/base/units.h"
#include "core/machine/processor.h"

namespace llmtrain::app {
namespace {

rlim_t limit_of(__rlimit_resource_t resource) {
  rlimit limit{};
  return ::getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

std::string shown_bytes(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : format_bytes(static_cast<std::int64_t>(limit));
}

void find_open_files(std::vector<Finding>& findings) {
  const rlim_t limit = limit_of(RLIMIT_NOFILE);
  const std::string text = limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
  // 1024 is Linux's usual soft limit.
  findings.push_back(limit < 1024 ? Finding{FindingState::note, "open files", text + ": few", "ulimit -n 4096"}
                                  : Finding{FindingState::ok, "open files", text, ""});
}

// InfiniBand pins (locks) the memory that it sends from.
void find_locked_memory(std::vector<Finding>& findings) {
  const rlim_t limit = limit_of(RLIMIT_MEMLOCK);
  const bool pins = ::access("/sys/class/infiniband", F_OK) == 0;
  findings.push_back(pins && limit != RLIM_INFINITY
                         ? Finding{FindingState::note, "locked memory", shown_bytes(limit) + ": InfiniBand needs more",
                                   "ulimit -l unlimited"}
                         : Finding{FindingState::ok, "locked memory", shown_bytes(limit), ""});
}

void find_stack(std::vector<Finding>& findings) {
  const rlim_t limit = limit_of(RLIMIT_STACK);
  // Linux's usual limit.
  constexpr rlim_t usual = 8 << 20;
  findings.push_back(limit < usual
                         ? Finding{FindingState::note, "stack", shown_bytes(limit) + ": small", "ulimit -s 8192"}
                         : Finding{FindingState::ok, "stack", shown_bytes(limit), ""});
}

void find_threads(std::vector<Finding>& findings) {
  const char* value = std::getenv("OMP_NUM_THREADS");
  if (value == nullptr) {
    findings.push_back({FindingState::ok, "OMP_NUM_THREADS", "not set: one thread per core", ""});
    return;
  }
  const long threads = std::strtol(value, nullptr, 10);
  const int cores = usable_cores();
  const std::string fix = "export OMP_NUM_THREADS=" + std::to_string(cores);
  if (threads < 1) {
    findings.push_back(
        {FindingState::note, "OMP_NUM_THREADS", std::string(value) + " is not a number of threads", fix});
  } else if (threads != cores) {
    const std::string_view effect = threads > cores ? ": more threads than cores" : ": some cores stay idle";
    findings.push_back({FindingState::note, "OMP_NUM_THREADS", std::string(value).append(effect), fix});
  } else {
    findings.push_back({FindingState::ok, "OMP_NUM_THREADS", value, ""});
  }
}

}  // namespace

void find_limits(std::vector<Finding>& findings) {
  find_open_files(findings);
  find_locked_memory(findings);
  find_stack(findings);
  find_threads(findings);
}

}  // namespace llmtrain::app
