// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/rank_watch.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>

namespace {

using llmtrain::app::LauncherEnd;
using llmtrain::app::wait_for_launcher;
using std::chrono::milliseconds;

// A shell script in place of mpirun, whose children are its ranks where the script gives them a number.
class StandIn {
 public:
  explicit StandIn(const std::string& script) : begin_(std::chrono::steady_clock::now()) {
    // What it leaves becomes a child of this process.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    process_ = ::fork();
    if (process_ == 0) {
      ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
      ::_exit(127);
    }
  }
  ~StandIn() {
    for (pid_t ended = 0; ended >= 0 || errno == EINTR;) ended = ::waitpid(-1, nullptr, 0);
  }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  LauncherEnd wait(std::int64_t ranks, milliseconds most_time_after) {
    return wait_for_launcher(
        process_, ranks, [this] { ++looks_; }, most_time_after);
  }

  milliseconds age() const {
    return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin_);
  }
  int looks() const { return looks_; }

 private:
  std::chrono::steady_clock::time_point begin_;
  pid_t process_;
  int looks_ = 0;
};

// Whether a child of this process still runs.
bool has_running_child() {
  pid_t ended = 0;
  do {
    ended = ::waitpid(-1, nullptr, WNOHANG);
  } while (ended > 0);
  return ended == 0;
}

}  // namespace

TEST_CASE("ranks that outlive their launcher are waited for") {
  // Rank 1 ends first, so that nobody asks for the end of rank 0 before the launcher has ended.
  StandIn launcher("OMPI_COMM_WORLD_RANK=0 sleep 1.5 & OMPI_COMM_WORLD_RANK=1 sleep 0.6 & sleep 0.8; exit 3");
  const LauncherEnd end = launcher.wait(2, milliseconds(60'000));
  CHECK_FALSE(has_running_child());
  CHECK(launcher.age() >= milliseconds(1'500));
  CHECK(launcher.age() < milliseconds(30'000));
  CHECK(launcher.looks() >= 10);
  REQUIRE(WIFEXITED(end.status));
  CHECK(WEXITSTATUS(end.status) == 3);
  CHECK(end.first_ranks == std::vector<std::int64_t>{1});
}

TEST_CASE("a rank that does not end is not waited for longer than the time allows") {
  StandIn launcher("OMPI_COMM_WORLD_RANK=0 sleep 2 & sleep 0.6");
  const LauncherEnd end = launcher.wait(1, milliseconds(100));
  CHECK(has_running_child());
  CHECK(launcher.age() >= milliseconds(700));
  CHECK(end.first_ranks.empty());
}

TEST_CASE("whatever else the launcher leaves is not waited for") {
  StandIn launcher("sleep 2 & OMPI_COMM_WORLD_RANK=0 sleep 0.6 & sleep 0.3");
  launcher.wait(1, milliseconds(60'000));
  CHECK(has_running_child());
}
