// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program, it sends it a signal every 500 microseconds, whose handler writes over 700 bytes of the
// stack that it runs on. At the end the number of signals goes to the file that LLMTRAIN_STORM names, a line for each
// process.
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> signals{0};

void write_over_stack(int) {
  volatile unsigned char overwritten[700];  // std::array has no volatile elements
  for (volatile unsigned char& byte : overwritten) byte = 0xA5;
  signals += overwritten[0] == 0xA5 ? 1 : 0;
}

bool is_meant() { return std::strcmp(::program_invocation_short_name, "llmtrain") == 0; }

__attribute__((constructor)) void start() {
  if (!is_meant()) return;
  struct sigaction action {};
  action.sa_handler = write_over_stack;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval interval{{0, 500}, {0, 500}};
  ::setitimer(ITIMER_REAL, &interval, nullptr);
}

__attribute__((destructor)) void report() {
  const char* file = std::getenv("LLMTRAIN_STORM");
  if (!is_meant() || file == nullptr) return;
  const int descriptor = ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) return;
  ::dprintf(descriptor, "%ld\n", signals.load());
  ::close(descriptor);
}

}  // namespace
