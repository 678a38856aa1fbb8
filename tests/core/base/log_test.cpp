// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/sink.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <regex>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
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
