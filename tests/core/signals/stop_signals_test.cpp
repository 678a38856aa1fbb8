// SPDX-License-Identifier: Apache-2.0
#include "core/signals/stop_signals.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/base/file.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

// Waits for a child's end. In naps: the thread sanitizer keeps signals back until a blocking call that it knows.
int status_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) ::usleep(1000);
  return status;
}

// What started the tests may ignore them, as shells do in the background.
void stop_ignoring() {
  for (const int signal : {SIGINT, SIGHUP}) std::signal(signal, SIG_DFL);
}

TEST_CASE("each of the signals is a stop request, and only in the object that it finds") {
  stop_ignoring();
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT, SIGHUP}) {
    INFO("signal " << signal);
    const StopSignals stop;
    CHECK_FALSE(stop.requested());
    std::raise(signal);
    CHECK(stop.requested());
    CHECK(stop.requested());
    CHECK_FALSE(stop.insisted());
  }
}

volatile std::sig_atomic_t handled = 0;

TEST_CASE("the destructor restores the previous handlers") {
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT, SIGHUP}) {
    INFO("signal " << signal);
    const auto before = std::signal(signal, [](int number) { handled = number; });
    {
      const StopSignals stop;
      handled = 0;
      std::raise(signal);
      CHECK(handled == 0);
    }
    std::raise(signal);
    CHECK(handled == signal);
    std::signal(signal, before);
  }
}

TEST_CASE("SIGINT and SIGHUP stay ignored, as shells and nohup want it; SIGTERM does not") {
  const auto asked_by = [](int signal) {
    return test::in_child([&]() -> std::string {
      std::signal(signal, SIG_IGN);
      const StopSignals stop;
      std::raise(signal);
      return stop.requested() ? "asked to stop" : "goes on";
    });
  };
  CHECK(asked_by(SIGHUP) == "goes on");
  CHECK(asked_by(SIGINT) == "goes on");
  CHECK(asked_by(SIGTERM) == "asked to stop");
}

TEST_CASE("a second interrupt ends the process at once; a second request of another kind does not") {
  const auto after_two = [](int first, int second) {
    return test::in_child([&]() -> std::string {
      stop_ignoring();
      const StopSignals stop;
      std::raise(first);
      std::raise(second);
      return stop.insisted() ? "insisted" : "asked to stop";
    });
  };
  const std::string killed = "killed by signal " + std::to_string(SIGINT);
  CHECK(after_two(SIGINT, SIGINT) == killed);
  CHECK(after_two(SIGTERM, SIGINT) == killed);
  CHECK(after_two(SIGTERM, SIGTERM) == "insisted");
  CHECK(after_two(SIGUSR1, SIGUSR1) == "asked to stop");
  CHECK(after_two(SIGHUP, SIGTERM) == "asked to stop");
}

TEST_CASE("two requests that another process sends at once, as GNU timeout does, are one") {
  const std::string after = test::in_child([]() -> std::string {
    stop_ignoring();
    const StopSignals stop;
    ::kill(::getpid(), SIGTERM);
    ::kill(::getpid(), SIGTERM);
    if (!stop.requested()) return "goes on";
    if (stop.insisted()) return "insisted at once";
    ::usleep(600'000);
    ::kill(::getpid(), SIGTERM);
    return stop.insisted() ? "insisted later" : "asked to stop";
  });
  CHECK(after == "insisted later");
}

TEST_CASE("requests are answered at once, and a second one with the newest checkpoint") {
  const test::TemporaryDirectory folder;
  const auto said = [&](int first, int second) {
    const std::string file = (folder.path() / "said").string();
    test::in_child([&]() -> std::string {
      stop_ignoring();
      if (std::freopen(file.c_str(), "w", stderr) == nullptr) return "no file";
      StopSignals stop;
      stop.answer((folder.path() / "latest").string());
      std::raise(first);
      std::raise(second);
      return "";
    });
    return read_file(file);
  };
  const std::string asked = "stopping after this step\n", interrupted = "stopping after this step; again to stop now\n";
  CHECK(said(SIGTERM, SIGTERM) == asked);
  CHECK(said(SIGUSR1, SIGUSR1) == asked);
  CHECK(said(SIGUSR1, SIGINT) == asked + interrupted);
  CHECK(said(SIGINT, SIGINT) ==
        interrupted + "stopped at once, without a checkpoint; run the same command again to start anew\n");
  folder.write("latest", "step-00000100\n");
  CHECK(said(SIGINT, SIGINT) == interrupted +
                                    "stopped at once; the newest checkpoint is step-00000100; run the same command "
                                    "again to continue\n");
}

TEST_CASE("SIGTERM from a launcher is a request, but not answered") {
  const test::TemporaryDirectory folder;
  // What a process says to the signal, sent by its parent or by itself.
  const auto said = [&](int signal, bool by_parent) {
    const std::string file = (folder.path() / "said").string();
    test::in_child([&]() -> std::string {
      stop_ignoring();
      if (std::freopen(file.c_str(), "w", stderr) == nullptr) return "no file";
      // Blocked until the child waits for it with its own handler.
      sigset_t set;
      ::sigemptyset(&set);
      ::sigaddset(&set, signal);
      ::sigprocmask(SIG_BLOCK, &set, nullptr);
      const pid_t child = ::fork();
      if (child == 0) {
        StopSignals stop;
        stop.answer("", StopSignals::StartedBy::launcher);
        if (!by_parent) ::kill(::getpid(), signal);
        ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
        while (!stop.requested()) ::usleep(1000);
        ::_exit(0);
      }
      if (by_parent) ::kill(child, signal);
      status_of(child);
      return "";
    });
    return read_file(file);
  };
  CHECK(said(SIGTERM, true).empty());
  CHECK(said(SIGTERM, false) == "stopping after this step\n");
  CHECK(said(SIGUSR1, true) == "stopping after this step\n");
}

TEST_CASE("a second request that ends another process is answered as well") {
  const test::TemporaryDirectory folder;
  const std::string file = (folder.path() / "said").string();
  test::in_child([&]() -> std::string {
    stop_ignoring();
    if (std::freopen(file.c_str(), "w", stderr) == nullptr) return "no file";
    // Before the fork, because the child may be killed at once: Catch has a handler of its own.
    std::signal(SIGTERM, SIG_DFL);
    const pid_t other = ::fork();
    if (other == 0) {
      ::pause();
      ::_exit(0);
    }
    StopSignals stop;
    stop.answer("");
    stop.end_on_insistence(other);
    std::raise(SIGINT);
    std::raise(SIGTERM);
    status_of(other);
    return "";
  });
  CHECK(read_file(file) == "stopping after this step; again to stop now\nstopping now\n");
}

TEST_CASE("a second request ends the process that is to end then, and not this one") {
  stop_ignoring();
  // Before the fork, because the child may be killed at once: Catch has a handler of its own.
  const auto former = std::signal(SIGTERM, SIG_DFL);
  const pid_t other = ::fork();
  if (other == 0) {
    ::pause();
    ::_exit(0);
  }
  std::signal(SIGTERM, former);
  StopSignals stop;
  stop.end_on_insistence(other);
  std::raise(SIGINT);
  CHECK(::waitpid(other, nullptr, WNOHANG) == 0);
  std::raise(SIGINT);
  int status = 0;
  REQUIRE(::waitpid(other, &status, 0) == other);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

// Says whether a starter was asked to stop, and with which code its child has ended. `child` gets the child's object,
// as after exec: another one, which finds the starter's memory by its name.
std::string after_child(int (*child)(const StopSignals&)) {
  return test::in_child([&]() -> std::string {
    const StopSignals starter;
    starter.share_with_children();
    const pid_t process = ::fork();
    if (process == 0) {
      const StopSignals stop;
      ::_exit(child(stop));
    }
    const int status = status_of(process);
    return std::string(starter.requested() ? "asked" : "not asked") + ", child " + std::to_string(WEXITSTATUS(status));
  });
}

TEST_CASE("a request reaches the processes that were started, without a signal, and none comes back") {
  CHECK(after_child([](const StopSignals& stop) {
          const bool before = stop.requested();
          ::kill(::getppid(), SIGUSR1);
          while (!stop.requested()) ::usleep(1000);
          return before ? 1 : 0;
        }) == "asked, child 0");
  CHECK(after_child([](const StopSignals& stop) {
          std::raise(SIGTERM);
          return stop.requested() ? 0 : 1;
        }) == "not asked, child 0");
}

}  // namespace
}  // namespace llmtrain
