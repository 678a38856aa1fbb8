// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/mpirun/launcher_shield.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <string>

#include "apps/llmtrain/mpirun/child_processes.h"

namespace llmtrain::app {
namespace {

constexpr std::array requests{SIGTERM, SIGINT, SIGHUP, SIGUSR1};

// Bit n-1 stands for signal n: those sent to the process, or to its first thread, that it has not received.
std::uint64_t pending_signals_of(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  std::uint64_t pending = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:")) pending |= std::stoull(line.substr(7), nullptr, 16);
  return pending;
}

// nohup and shells let whole groups of processes ignore SIGHUP and SIGINT.
bool is_ignored_here(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void shield_from_signals() noexcept {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (const int signal : requests) ::sigaddset(&blocked, signal);
  ::sigaddset(&blocked, SIGPIPE);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

void LauncherShield::pass_on() const {
  if (stop_.requested()) return;
  const std::uint64_t pending = pending_signals_of(launcher_);
  for (const int signal : requests) {
    if ((pending >> (signal - 1) & 1) == 0 || is_ignored_here(signal)) continue;
    // Not the same signal: whoever signals a whole group of processes asks once, and does not insist.
    ::kill(::getpid(), SIGUSR1);
    return;
  }
}

void LauncherShield::end_all() {
  // What is nearly done may be done: who insists may be a program, as timeout(1) is, which signals its child and then
  // the group that this is in.
  constexpr std::chrono::seconds grace{2}, patience{7};
  const auto now = std::chrono::steady_clock::now();
  if (!ending_since_) ending_since_ = now;
  if (now - *ending_since_ < grace) return;
  for (const pid_t rank : children_of(launcher_)) ::kill(rank, SIGKILL);
  if (now - *ending_since_ > patience) ::kill(launcher_, SIGKILL);
}

void LauncherShield::look() {
  pass_on();
  if (stop_.insisted()) end_all();
}

}  // namespace llmtrain::app
