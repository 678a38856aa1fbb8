// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "parallel/run/console.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

using test::TemporaryDirectory;

TEST_CASE("a file of the given name is a stop request as long as it exists") {
  const TemporaryDirectory folder;
  StopFile stop(folder.path() / "STOP");
  folder.write("stop", "");
  CHECK_FALSE(stop.exists());
  folder.write("STOP", "");
  CHECK(stop.exists());
  stop.remove();
  CHECK_FALSE(stop.exists());
  CHECK_FALSE(std::filesystem::exists(folder.path() / "STOP"));
  stop.remove();
}

}  // namespace
}  // namespace llmtrain
