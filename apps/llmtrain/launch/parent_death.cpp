// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/parent_death.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "core/base/error.h"

namespace llmtrain::app {
namespace {

constexpr std::string_view launcher_variable = "LLMTRAIN_LAUNCHER_PROCESS";
// The environment refers to this text instead of copying it.
char launcher_entry[64] = {};

}  // namespace

void end_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have ended before the call, which then has no effect.
  if (::getppid() != parent) ::_exit(static_cast<int>(ExitCode::rank_lost));
}

void end_with_launcher() {
  pid_t parent = ::getppid();
  if (const char* named = std::getenv(launcher_variable.data())) {
    const std::string_view digits(named);
    std::from_chars(digits.data(), digits.data() + digits.size(), parent);
  }
  end_with_parent(parent);
}

void prepare_launcher_name() {
  write_launcher_name(0);
  ::putenv(launcher_entry);
}

void write_launcher_name(pid_t launcher) noexcept {
  char* next = std::copy(launcher_variable.begin(), launcher_variable.end(), std::begin(launcher_entry));
  *next++ = '=';
  *std::to_chars(next, std::end(launcher_entry) - 1, launcher).ptr = '\0';
}

}  // namespace llmtrain::app
