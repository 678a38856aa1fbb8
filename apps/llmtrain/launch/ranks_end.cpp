// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/ranks_end.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <fstream>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"

namespace llmtrain::app {
namespace {

// "9 (Killed)".
std::string describe(int signal) { return fmt::format("{} ({})", signal, ::strsignal(signal)); }

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

// A rank that trains takes these as requests, and a second SIGINT as the order to end. So one that is killed by them
// was about to start, before its first step, which is none of the other ranks' either.
bool is_early_request(int signal, const StopSignals& stop) {
  return signal == SIGTERM || signal == SIGHUP || signal == SIGUSR1 || (signal == SIGINT && stop.requested());
}

[[noreturn]] void report_killed_rank(const std::vector<std::int64_t>& ranks, int signal, const std::string& latest) {
  // Whoever else sends it knows.
  const char* reason = signal == SIGKILL
                           ? ", as Linux does where memory runs out: llmtrain plan names the cheapest change that fits"
                           : "";
  throw Error(ExitCode::rank_lost, fmt::format("{} killed by signal {}{}; run the same command again {}",
                                               which_was(ranks), describe(signal), reason, place_to_continue(latest)));
}

// Codes of a rank that has said why.
bool is_own_code(int code) {
  constexpr std::array own{ExitCode::done,      ExitCode::bad_recipe,   ExitCode::bad_data, ExitCode::missing_input,
                           ExitCode::rank_lost, ExitCode::cannot_write, ExitCode::stopped};
  return std::ranges::any_of(own, [code](ExitCode each) { return static_cast<int>(each) == code; });
}

// A code that no rank explains: mpirun has failed, or a rank before it was one, as where its libraries are missing.
[[noreturn]] void report_unexplained(const RanksEnd& end, int code, const std::string& latest) {
  const std::string_view words = end.has_spoken ? "what it says is above" : "it says nothing";
  const std::string held = end.held_back.empty() ? "" : ":\n" + end.held_back;
  throw Error(is_own_code(code) ? static_cast<ExitCode>(code) : ExitCode::rank_lost,
              fmt::format("mpirun ended with exit code {}; {}; OMPI_MCA_* variables and ~/.openmpi/mca-params.conf "
                          "change what it does; run the same command again {}{}",
                          code, words, place_to_continue(latest), held));
}

}  // namespace

int exit_code_of(const RanksEnd& end, const StopSignals& stop, const std::string& latest) {
  const int status = end.launcher.status;
  if (!WIFEXITED(status) && !stop.insisted())
    throw Error(ExitCode::rank_lost, "mpirun was killed by signal " + describe(WTERMSIG(status)) +
                                         "; run the same command again " + place_to_continue(latest));
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  const bool is_answered = code == static_cast<int>(ExitCode::stopped) || code == static_cast<int>(ExitCode::done);
  if (stop.insisted() && !is_answered)
    throw Error(ExitCode::interrupted,
                "ended by a second request to stop, without a checkpoint of the last steps; run the same command "
                "again " +
                    place_to_continue(latest));
  // mpirun exits as a shell does: with 128 plus the signal that killed a rank.
  constexpr int by_signal = 128;
  if (code > by_signal && is_early_request(code - by_signal, stop)) {
    log().info("stopped before the first step; run the same command again {}", place_to_continue(latest));
    return static_cast<int>(ExitCode::stopped);
  }
  if (code > by_signal && code < by_signal + NSIG)
    report_killed_rank(end.launcher.first_ranks, code - by_signal, latest);
  // Whoever has asked a run to stop has been answered.
  const bool is_explained = end.has_spoken && (is_own_code(code) || !end.held_back.empty());
  if (!is_answered && !is_explained) report_unexplained(end, code, latest);
  return code;
}

}  // namespace llmtrain::app
