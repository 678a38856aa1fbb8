// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/bad_access.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "tests/emulator/device/memory/device_memory.h"
#include "tests/emulator/device/world.h"

namespace emulated {
namespace {

constexpr int exit_code = 86;

const char* pending_name(const void* address) {
  auto& blocks = world().pinned_blocks;
  const auto place = find_block(blocks, address);
  if (place == blocks.end() || place->second.pending.empty()) return "nothing";
  return place->second.pending.back().name->c_str();
}

// Without World::mutex: the process ends, and the thread may hold it.
void on_bad_access(int, siginfo_t* info, void*) {
  char text[300];
  int length = 0;
  const int device = device_of_memory(info->si_addr);
  if (device >= 0)
    length = std::snprintf(text, sizeof text, "the host touches memory of device %d\n", device);
  else if (is_pinned(info->si_addr))
    length = std::snprintf(text, sizeof text, "the host touches pinned memory while %s is pending\n",
                           pending_name(info->si_addr));
  if (length > 0) {
    (void)!write(STDERR_FILENO, text, static_cast<std::size_t>(length));
    _exit(exit_code);
  }
  std::signal(SIGSEGV, SIG_DFL);  // any other bad access: the instruction repeats it
}

}  // namespace

void report_bad_accesses() {
  world();  // a signal handler must not make it
  struct sigaction action {};
  action.sa_sigaction = on_bad_access;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

const char* protection() { return world().protection.name(); }

}  // namespace emulated
