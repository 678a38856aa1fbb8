// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "parallel/comm/backend.h"

namespace llmtrain {
namespace {

using namespace std::chrono_literals;

// What a copy of this process says after it was halted for so long: 0 if its watchdog of one second had time left,
// 1 if not.
int has_passed_after(std::chrono::milliseconds halt) {
  const pid_t child = ::fork();
  if (child == 0) {
    Deadline deadline(1);
    static_cast<void>(deadline.left());
    ::raise(SIGSTOP);
    ::_exit(deadline.has_passed() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  std::this_thread::sleep_for(halt);
  ::kill(child, SIGCONT);
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("the watchdog does not count the time in which its own process is halted") {
  CHECK(has_passed_after(1100ms) == 0);
}

TEST_CASE("the watchdog's time starts when it is first asked for, and passes") {
  Deadline deadline(0.2);
  std::this_thread::sleep_for(300ms);
  CHECK(deadline.left() > 100ms);
  const auto start = Clock::now();
  while (!deadline.has_passed()) std::this_thread::sleep_for(deadline.left());
  CHECK(Clock::now() - start > 100ms);
  CHECK(deadline.left() <= 0ms);
}

}  // namespace llmtrain
