// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/sweep/run_processes.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "apps/llmtrain/launch/launcher.h"
#include "apps/llmtrain/launch/parent_death.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace llmtrain::app {
namespace {

constexpr auto poll = std::chrono::milliseconds(20);  // far below what a run takes

// The child: becomes the run, or says in its log why it cannot.
[[noreturn]] void become(std::vector<std::string>& command, const MachineShare& share, pid_t starter, int log) {
  ::setpgid(0, 0);  // a terminal's Ctrl-C then reaches only the sweep, which passes it on
  end_with_parent(starter);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  // What the user has set stays.
  if (share.threads) ::setenv("OMP_NUM_THREADS", std::to_string(*share.threads).c_str(), 0);
  if (!share.gpus.empty()) ::setenv("CUDA_VISIBLE_DEVICES", share.gpus.c_str(), 1);
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  ::dprintf(STDERR_FILENO, "%s: cannot be started: %s\n", arguments.front(), std::strerror(errno));
  ::_exit(127);
}

}  // namespace

RunProcesses::RunProcesses(std::string recipe, StopSignals& stop) : recipe_(std::move(recipe)), stop_(stop) {
  stop.share_with_children();
}

void RunProcesses::start(std::size_t run, const SweepRun& what, const MachineShare& share) {
  std::vector<std::string> command{program_file(), "run", recipe_, "--quiet", "--run-dir", what.directory.string()};
  for (const Override& change : what.overrides) command.insert(command.end(), {"--set", change});
  const int log = ::open(what.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log < 0) throw Error(ExitCode::cannot_write, what.log.string() + ": cannot be written: " + std::strerror(errno));
  const pid_t starter = ::getpid();
  const pid_t process = ::fork();
  if (process == 0) become(command, share, starter, log);
  const int reason = errno;
  ::close(log);
  if (process < 0)
    throw Error(ExitCode::internal_error, std::string("a run cannot be started: ") + std::strerror(reason));
  runs_[process] = run;
}

RunProcesses::End RunProcesses::wait() {
  while (true) {
    int status = 0;
    const pid_t process = ::waitpid(-1, &status, WNOHANG);
    if (process < 0 && errno != EINTR)
      throw Error(ExitCode::internal_error, std::string("runs cannot be waited for: ") + std::strerror(errno));
    const auto found = runs_.find(process);
    if (found == runs_.end()) {
      if (stop_.requested() && !std::exchange(has_said_stop_, true))
        log().warn("stopping: {} save and end; the same command goes on with them",
                   runs_.size() == 1 ? "the run at work will" : "the runs at work will");
      std::this_thread::sleep_for(poll);
      continue;
    }
    const End end{found->second, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
    runs_.erase(found);
    return end;
  }
}

}  // namespace llmtrain::app
