// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "apps/llmtrain/launch/launcher.h"
#include "apps/llmtrain/launch/parent_death.h"
#include "apps/llmtrain/launch/rank_watch.h"
#include "apps/llmtrain/launch/ranks_end.h"
#include "apps/llmtrain/mpirun/launch_limits.h"
#include "apps/llmtrain/mpirun/launcher_shield.h"
#include "apps/llmtrain/mpirun/output_relay.h"
#include "apps/llmtrain/mpirun/shared_files.h"
#include "core/base/error.h"
#include "core/machine/processor.h"

namespace llmtrain::app {
namespace {

std::vector<std::string> arguments_given() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  if (!arguments.empty()) arguments.erase(arguments.begin());
  return arguments;
}

// mpirun separates programs by the argument ":", which a path may be, too: "--run-dir=:" and "./:" mean the same.
std::vector<std::string> without_separators(const std::vector<std::string>& arguments) {
  std::vector<std::string> safe;
  for (const std::string& argument : arguments) {
    if (argument == ":" && !safe.empty() && safe.back().starts_with("--")) {
      safe.back() += "=:";
    } else {
      safe.push_back(argument == ":" ? "./:" : argument);
    }
  }
  return safe;
}

std::vector<std::string> command_of(std::int64_t ranks) {
  // Neither bound to cores nor limited to as many ranks as cores: the threads of each rank are set by share_cores().
  // The settings of the user's that would start fewer ranks, or some of them elsewhere, do not count here.
  std::istringstream words(
      "mpirun --bind-to none --map-by slot --oversubscribe --mca rmaps_base_no_oversubscribe 0 "
      "--mca orte_default_hostfile /dev/null");
  std::vector<std::string> command{std::istream_iterator<std::string>(words), {}};
  // Open MPI refuses root otherwise, which is usual in containers.
  if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
  command.insert(command.end(), {"-n", std::to_string(ranks), program_file()});
  const auto arguments = without_separators(arguments_given());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

// The child: becomes mpirun, or reports through the pipe why it cannot.
[[noreturn]] void become(std::vector<std::string>& command, pid_t starter, const OutputRelay& output, int pipe) {
  shield_from_signals();
  ::setpgid(0, 0);  // a terminal's Ctrl-C then reaches only the parent
  end_with_parent(starter);
  write_launcher_name(::getpid());
  output.connect();
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  const int reason = errno;
  [[maybe_unused]] const auto written = ::write(pipe, &reason, sizeof(reason));
  ::_exit(127);
}

void refuse_without_mpirun(int pipe) {
  int reason = 0;
  if (::read(pipe, &reason, sizeof(reason)) != sizeof(reason)) return;
  throw Error(ExitCode::missing_input, std::string("mpirun: cannot be started: ") + std::strerror(reason) +
                                           "; install Open MPI, or set launch.backend to \"local\"");
}

// Divides the cores among the ranks, unless the user has set the number of threads.
void share_cores(std::int64_t ranks) {
  const std::int64_t threads = std::max<std::int64_t>(1, usable_cores() / ranks);
  // 0: a value that is set stays.
  ::setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 0);
}

// Ranks of one machine exchange through its memory. Other ways listen for connections from all networks. What the user
// has set stays.
void stay_on_this_machine() {
  ::setenv("OMPI_MCA_pml", "ob1", 0);
  ::setenv("OMPI_MCA_btl", "self,vader", 0);
}

}  // namespace

std::string program_file() {
  char path[PATH_MAX] = {};
  if (::readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
    throw Error(ExitCode::internal_error, std::string("/proc/self/exe: cannot be read: ") + std::strerror(errno));
  return path;
}

int start_ranks(std::int64_t ranks, StopSignals& stop, const std::string& latest) {
  require_limits(ranks);
  share_cores(ranks);
  stay_on_this_machine();
  const SharedFiles files(ranks);
  stop.share_with_children();
  prepare_launcher_name();
  std::vector<std::string> command = command_of(ranks);
  OutputRelay output;
  int pipe[2] = {};
  // Closed by a successful exec: the parent reads end of file, or the reason of a failure.
  if (::pipe2(pipe, O_CLOEXEC) != 0)
    throw Error(ExitCode::internal_error, std::string("cannot create a pipe: ") + std::strerror(errno));
  const pid_t starter = ::getpid();
  const pid_t process = ::fork();
  if (process < 0)
    throw Error(ExitCode::internal_error, std::string("mpirun: cannot create a process: ") + std::strerror(errno));
  if (process == 0) become(command, starter, output, pipe[1]);
  // The signal that this sends is one of those that mpirun does not receive: the shield ends it.
  stop.end_on_insistence(process);
  output.start();
  ::close(pipe[1]);
  refuse_without_mpirun(pipe[0]);
  ::close(pipe[0]);
  LauncherShield shield(process, stop);
  RanksEnd end;
  end.launcher = wait_for_launcher(process, ranks, [&shield] { shield.look(); });
  output.finish([&stop] { return stop.insisted(); });
  end.held_back = output.held_back();
  end.has_spoken = output.has_shown();
  return exit_code_of(end, stop, latest);
}

}  // namespace llmtrain::app
