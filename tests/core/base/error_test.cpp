// SPDX-License-Identifier: Apache-2.0
#include "core/base/error.h"

#include <catch2/catch.hpp>
#include <string>

namespace llmtrain {
namespace {

TEST_CASE("An error carries its complete message and its exit code") {
  const Error error(ExitCode::bad_data, "tokens.bin: token 9 is 70000; ids are below vocab_size 50257");
  CHECK(std::string(error.what()) == "tokens.bin: token 9 is 70000; ids are below vocab_size 50257");
  CHECK(error.code() == ExitCode::bad_data);
}

TEST_CASE("Exit codes are the numbers that scripts rely on") {
  CHECK(static_cast<int>(ExitCode::done) == 0);
  CHECK(static_cast<int>(ExitCode::internal_error) == 1);
  CHECK(static_cast<int>(ExitCode::bad_recipe) == 2);
  CHECK(static_cast<int>(ExitCode::bad_data) == 65);
  CHECK(static_cast<int>(ExitCode::missing_input) == 66);
  CHECK(static_cast<int>(ExitCode::rank_lost) == 69);
  CHECK(static_cast<int>(ExitCode::cannot_write) == 73);
  CHECK(static_cast<int>(ExitCode::stopped) == 75);
}

TEST_CASE("An error can be caught as a standard exception") {
  CHECK_THROWS_AS(throw Error(ExitCode::stopped, "stopped"), std::runtime_error);
}

}  // namespace
}  // namespace llmtrain
