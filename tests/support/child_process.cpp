// SPDX-License-Identifier: Apache-2.0
#include "tests/support/child_process.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>

namespace llmtrain::test {
namespace {

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string guarded(const std::function<std::string()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return std::string("threw: ") + error.what();
  }
}

}  // namespace

std::string in_child(const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string result = guarded(work);
    const auto written = ::write(ends[1], result.data(), result.size());
    ::_exit(written == static_cast<ssize_t>(result.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string result;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    result.append(buffer.data(), static_cast<std::size_t>(count));
  ::close(ends[0]);
  const int status = wait_for(child);
  return WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status)) : result;
}

bool killed_at_system_call(int call, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(2);
    ::raise(SIGSTOP);
    work();
    ::_exit(0);
  }
  int status = wait_for(child);
  if (!WIFSTOPPED(status)) throw std::runtime_error("processes may not be traced here");
  // The tracer is notified twice of each call: before it and after it.
  for (int stop = 0; stop <= 2 * call; ++stop) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    status = wait_for(child);
    if (WIFEXITED(status)) return false;
  }
  ::kill(child, SIGKILL);
  while (!WIFSIGNALED(status)) status = wait_for(child);
  return true;
}

}  // namespace llmtrain::test
