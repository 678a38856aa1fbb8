// SPDX-License-Identifier: Apache-2.0
#include "core/base/long_work.h"

#include <catch2/catch.hpp>

namespace llmtrain::test {

TEST_CASE("long work ends where the one who waits for it asks for that") {
  bool stops = false;
  const WorkMonitor monitor([&] { return stops; }, WorkMonitor::Lines::none);
  const ReportShare report = monitor.begin("reading data.bin");
  report(0.5);
  stops = true;
  try {
    report(0.6);
    FAIL("goes on");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::stopped);
    CHECK_THAT(error.what(), Catch::Contains("while reading data.bin; run the same command again"));
  }
  CHECK_THROWS_AS(monitor.begin("more"), Error);
  CHECK_NOTHROW(WorkMonitor().begin("work that nobody waits for")(1));
}

}  // namespace llmtrain::test
