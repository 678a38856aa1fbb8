// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/console.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/child_process.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

using test::TemporaryDirectory;

TEST_CASE("each of the signals is a stop request, and nothing else is") {
  const TemporaryDirectory folder;
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    INFO("signal " << signal);
    const StopSignal stop(folder.path() / "STOP");
    CHECK_FALSE(stop.requested());
    std::raise(signal);
    CHECK(stop.requested());
    CHECK(stop.requested());
  }
}

TEST_CASE("a file of the given name is a stop request as long as it exists") {
  const TemporaryDirectory folder;
  StopSignal stop(folder.path() / "STOP");
  folder.write("stop", "");
  CHECK_FALSE(stop.requested());
  folder.write("STOP", "");
  CHECK(stop.requested());
  stop.acknowledge();
  CHECK_FALSE(stop.requested());
  CHECK_FALSE(std::filesystem::exists(folder.path() / "STOP"));
  stop.acknowledge();
}

TEST_CASE("a new object starts without a request") {
  const TemporaryDirectory folder;
  {
    const StopSignal stop(folder.path() / "STOP");
    std::raise(SIGTERM);
    REQUIRE(stop.requested());
  }
  const StopSignal stop(folder.path() / "STOP");
  CHECK_FALSE(stop.requested());
}

volatile std::sig_atomic_t handled = 0;

TEST_CASE("the destructor restores the previous handlers") {
  const TemporaryDirectory folder;
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    INFO("signal " << signal);
    const auto before = std::signal(signal, [](int number) { handled = number; });
    {
      const StopSignal stop(folder.path() / "STOP");
      handled = 0;
      std::raise(signal);
      CHECK(handled == 0);
    }
    std::raise(signal);
    CHECK(handled == signal);
    std::signal(signal, before);
  }
}

TEST_CASE("a second interrupt ends the process at once; a second request of another kind does not") {
  const TemporaryDirectory folder;
  const auto after_two = [&](int signal) {
    return test::in_child([&]() -> std::string {
      const StopSignal stop(folder.path() / "STOP");
      std::raise(signal);
      std::raise(signal);
      return stop.requested() ? "asked to stop" : "goes on";
    });
  };
  CHECK(after_two(SIGINT) == "killed by signal " + std::to_string(SIGINT));
  CHECK(after_two(SIGTERM) == "asked to stop");
  CHECK(after_two(SIGUSR1) == "asked to stop");
}

}  // namespace
}  // namespace llmtrain
