// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "apps/llmtrain/launch/launcher.h"
#include "apps/llmtrain/launch/parent_death.h"
#include "apps/llmtrain/launch/rank_watch.h"
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
  std::vector<std::string> command{"mpirun", "--quiet", "--bind-to", "none", "--oversubscribe"};
  // Open MPI refuses root otherwise, which is usual in containers.
  if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
  command.insert(command.end(), {"-n", std::to_string(ranks), program_file()});
  const auto arguments = without_separators(arguments_given());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

// The child: becomes mpirun, or reports through the pipe why it cannot.
[[noreturn]] void become(std::vector<std::string>& command, pid_t starter, int pipe) {
  ::setpgid(0, 0);  // a terminal's Ctrl-C then reaches only the parent
  end_with_parent(starter);
  write_launcher_name(::getpid());
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

// "9 (Killed)".
std::string describe(int signal) { return std::to_string(signal) + " (" + ::strsignal(signal) + ")"; }

// Where a run goes on that has ended without a checkpoint of its last steps.
std::string place_to_continue(const std::string& latest) {
  std::ifstream file(latest);
  std::string name;
  return std::getline(file, name) ? "to continue from " + name : "to start again, because there is no checkpoint yet";
}

// "rank 1 was", or what is known of it.
std::string which_was(const std::vector<std::int64_t>& ranks) {
  if (ranks.empty()) return "a rank was";
  return ranks.size() == 1 ? fmt::format("rank {} was", ranks.front())
                           : fmt::format("one of the ranks {} was", fmt::join(ranks, ", "));
}

[[noreturn]] void report_killed_rank(const std::vector<std::int64_t>& ranks, int signal, const std::string& latest) {
  // Whoever else sends it knows.
  const char* reason = signal == SIGKILL
                           ? ", as Linux does where memory runs out: llmtrain plan names the cheapest change that fits"
                           : "";
  throw Error(ExitCode::rank_lost, fmt::format("{} killed by signal {}{}; run the same command again {}",
                                               which_was(ranks), describe(signal), reason, place_to_continue(latest)));
}

int wait_for(pid_t process, std::int64_t ranks, const StopSignals& stop, const std::string& latest) {
  const auto [status, first_ranks] = wait_for_launcher(process, ranks);
  const bool has_answered = WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(ExitCode::stopped);
  if (stop.insisted() && !has_answered)
    throw Error(ExitCode::interrupted,
                "ended by a second request to stop, without a checkpoint of the last steps; run the same command "
                "again " +
                    place_to_continue(latest));
  // mpirun exits as a shell does: with 128 plus the signal that killed a rank.
  constexpr int by_signal = 128;
  if (WIFEXITED(status) && WEXITSTATUS(status) > by_signal)
    report_killed_rank(first_ranks, WEXITSTATUS(status) - by_signal, latest);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  throw Error(ExitCode::rank_lost, "mpirun was killed by signal " + describe(WTERMSIG(status)) +
                                       "; run the same command again " + place_to_continue(latest));
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

// Throws Error(cannot_write) where a limit is lower than mpirun needs.
void require_limit(int resource, rlim_t least, const std::string& what, const std::string& command) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur >= least) return;
  throw Error(ExitCode::cannot_write, "the limit of " + what + " is " + std::to_string(limit.rlim_cur) + " here (" +
                                          command + "), too low for mpirun: raise it to " + std::to_string(least) +
                                          " or more, or set launch.backend to \"local\"");
}

// Where mpirun cannot make its files of shared memory or its pipes, it and its ranks wait for each other for ever.
void require_limits(std::int64_t ranks) {
  constexpr rlim_t shared_memory = 64 << 20, files = 48, files_per_rank = 8;
  require_limit(RLIMIT_FSIZE, shared_memory, "bytes in a file", "ulimit -f");
  require_limit(RLIMIT_NOFILE, files + files_per_rank * static_cast<rlim_t>(ranks), "open files", "ulimit -n");
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
  stop.share_with_children();
  prepare_launcher_name();
  std::vector<std::string> command = command_of(ranks);
  int pipe[2] = {};
  // Closed by a successful exec: the parent reads end of file, or the reason of a failure.
  if (::pipe2(pipe, O_CLOEXEC) != 0)
    throw Error(ExitCode::internal_error, std::string("cannot create a pipe: ") + std::strerror(errno));
  const pid_t starter = ::getpid();
  const pid_t process = ::fork();
  if (process < 0)
    throw Error(ExitCode::internal_error, std::string("mpirun: cannot create a process: ") + std::strerror(errno));
  if (process == 0) become(command, starter, pipe[1]);
  stop.end_on_insistence(process);
  ::close(pipe[1]);
  refuse_without_mpirun(pipe[0]);
  ::close(pipe[0]);
  return wait_for(process, ranks, stop, latest);
}

}  // namespace llmtrain::app
