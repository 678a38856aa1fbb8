// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/tests/child_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <stdexcept>

#include "tests/emulator/device/runtime.h"

#ifdef LLMTRAIN_SANITIZED
// Every program would sleep for a second in front of its end.
extern "C" const char* __tsan_default_options() { return "atexit_sleep_ms=0"; }
#endif

namespace emulated::test {
namespace {

constexpr int exit_code_of_a_fault = 85;

struct Unexpected : std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void run_child(const std::function<void()>& program) {
  int exit_code = 0;
  try {
    report_bad_accesses();
    program();
  } catch (const Unexpected& error) {
    std::printf("%s\n", error.what());
    exit_code = 1;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    std::printf("%s\n", text.substr(0, text.find("\nException raised from")).c_str());  // LibTorch's backtrace
    exit_code = exit_code_of_a_fault;
  }
  std::fflush(stdout);
  ::_exit(exit_code);
}

std::string read_all(int end) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t count = ::read(end, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

Outcome outcome_of(const std::function<void()>& program) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    run_child(program);
  }
  ::close(ends[1]);
  Outcome outcome;
  outcome.text = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  outcome.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

void must_be_right(const std::function<void()>& program) {
  const Outcome outcome = outcome_of(program);
  INFO(outcome.text);
  CHECK(outcome.exit_code == 0);
}

void must_be_caught(const std::string& by, const std::function<void()>& program) {
  const Outcome outcome = outcome_of(program);
  CHECK(outcome.exit_code > 1);
  CHECK_THAT(outcome.text, Catch::Contains(by));
}

void expect(bool holds, const std::string& what) {
  if (!holds) throw Unexpected("not as it must be: " + what);
}

}  // namespace emulated::test
