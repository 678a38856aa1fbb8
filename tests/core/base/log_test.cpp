// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/sink.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <regex>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

// There is one logger for the whole program: a test removes what it adds.
class SinksRestored {
 public:
  SinksRestored() : before_(log().target().sinks()) {}
  ~SinksRestored() {
    log().target().sinks() = before_;
    set_verbosity(Verbosity::normal);
  }
  SinksRestored(const SinksRestored&) = delete;
  SinksRestored& operator=(const SinksRestored&) = delete;

 private:
  std::vector<spdlog::sink_ptr> before_;
};

TEST_CASE("Verbosity sets what the console shows") {
  const SinksRestored restored;
  const auto& console = *log().target().sinks().front();
  set_verbosity(Verbosity::errors);
  CHECK(console.should_log(spdlog::level::err));
  CHECK_FALSE(console.should_log(spdlog::level::warn));
  set_verbosity(Verbosity::quiet);
  CHECK(console.should_log(spdlog::level::warn));
  CHECK_FALSE(console.should_log(spdlog::level::info));
  set_verbosity(Verbosity::normal);
  CHECK(console.should_log(spdlog::level::info));
  CHECK_FALSE(console.should_log(spdlog::level::debug));
  set_verbosity(Verbosity::verbose);
  CHECK(console.should_log(spdlog::level::debug));
}

TEST_CASE("NO_COLOR asks for no colours unless it is empty") {
  const char* before = std::getenv("NO_COLOR");
  const std::string value = before == nullptr ? "" : before;
  ::unsetenv("NO_COLOR");
  CHECK(wants_colours());
  ::setenv("NO_COLOR", "", 1);
  CHECK(wants_colours());
  ::setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(wants_colours());
  ::setenv("NO_COLOR", value.c_str(), 1);
}

TEST_CASE("A log file contains all levels with times, whatever the console shows, and is appended to") {
  const SinksRestored restored;
  const test::TemporaryDirectory directory;
  const auto file = directory.write("rank.log", "an earlier line\n");
  set_verbosity(Verbosity::quiet);
  log_to_file(file);
  log().debug("a detail");
  log().info("step {} done", 7);
  log().flush();
  const std::regex expected(
      R"(an earlier line\n\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d debug a detail\n\S+ info step 7 done\n)");
  const std::string text = read_file(file);
  INFO(text);
  CHECK(std::regex_match(text, expected));
}

TEST_CASE("A process that is killed leaves every line that it has logged and that its console has shown") {
  const test::TemporaryDirectory directory;
  const auto file = directory.write("rank.log", "a line that another kill has cut");
  const auto shown = directory.path() / "shown";
  CHECK(test::in_child([&]() -> std::string {
          const int console = ::open(shown.c_str(), O_WRONLY | O_CREAT, 0644);
          ::dup2(console, STDERR_FILENO);
          log_to_file(file);
          log().info("the first");
          log().debug("a detail");
          log().info("the last");
          log().debug("and a detail");
          ::raise(SIGKILL);
          return "it lives";
        }).find("it lives") == std::string::npos);
  CHECK(read_file(shown) == "the first\nthe last\n");
  const std::string text = read_file(file);
  INFO(text);
  CHECK(std::regex_match(text, std::regex("a line that another kill has cut\n\\S+ info the first\n\\S+ debug a detail\n"
                                          "\\S+ info the last\n\\S+ debug and a detail\n")));
}

TEST_CASE("A line is in the file before the console shows it") {
  const SinksRestored restored;
  const test::TemporaryDirectory directory;
  log_to_file(directory.path() / "rank.log");
  CHECK(log().target().sinks().size() == 2);
  set_verbosity(Verbosity::errors);
  CHECK(log().target().sinks().front()->should_log(spdlog::level::debug));
  CHECK_FALSE(log().target().sinks().back()->should_log(spdlog::level::warn));
}

TEST_CASE("A log file that is a link is refused, and where it leads left alone") {
  const SinksRestored restored;
  const test::TemporaryDirectory directory;
  const auto other = directory.write("other", "of somebody else\n");
  std::filesystem::create_symlink(other, directory.path() / "rank.log");
  CHECK_THROWS_WITH(log_to_file(directory.path() / "rank.log"), Catch::Contains("rank.log: is a link"));
  log().info("a line");
  CHECK(read_file(other) == "of somebody else\n");
}

TEST_CASE("A log file that cannot be opened is an error that names it") {
  const SinksRestored restored;
  const test::TemporaryDirectory directory;
  const auto below = directory.write("file", "") / "rank.log";
  const auto sinks = log().target().sinks().size();
  try {
    log_to_file(below);
    FAIL("a path through a file was opened");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::cannot_write);
    CHECK(std::string(error.what()).find("rank.log") != std::string::npos);
  }
  CHECK(log().target().sinks().size() == sinks);
}

}  // namespace
}  // namespace llmtrain
