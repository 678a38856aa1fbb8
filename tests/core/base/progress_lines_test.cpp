// SPDX-License-Identifier: Apache-2.0
#include "core/base/progress_lines.h"

#include <catch2/catch.hpp>
#include <chrono>

namespace llmtrain::test {

TEST_CASE("long work has a line every ten seconds") {
  using namespace std::chrono_literals;
  const ProgressLines::Clock::time_point start{1h};
  ProgressLines lines("weights", start);
  CHECK_FALSE(lines.line_at(start, 0));
  CHECK_FALSE(lines.line_at(start + 9900ms, 0.1));
  CHECK(lines.line_at(start + 10s, 0.2) == "weights: 20 %, about 40.0s left");
  CHECK_FALSE(lines.line_at(start + 19s, 0.4));
  CHECK(lines.line_at(start + 25s, 0) == "weights: 0 %");
  CHECK(lines.line_at(start + 40s, 1) == "weights: 100 %");
}

TEST_CASE("rate and time left of work that was interrupted are those of the rest") {
  using namespace std::chrono_literals;
  const ProgressLines::Clock::time_point start{1h};
  ProgressLines lines("tokenising", start);
  CHECK_FALSE(lines.line_at(start, 0.5, 3000));
  CHECK(lines.line_at(start + 10s, 0.5, 3000) == "tokenising: 50 %");
  CHECK(lines.line_at(start + 20s, 0.75, 3000 + 40 * 1024) == "tokenising: 75 %, 2.00 KiB/s, about 20.0s left");
}

}  // namespace llmtrain::test
