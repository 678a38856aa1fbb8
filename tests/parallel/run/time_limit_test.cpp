// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/time_limit.h"

#include <catch2/catch.hpp>

namespace llmtrain {
namespace {

using std::chrono::seconds;

const TimeLimit::Clock::time_point start{seconds(1'000'000'000)};

TEST_CASE("without a deadline nothing stops") {
  CHECK_FALSE(TimeLimit(std::nullopt, start).must_stop(1e9, 1e9, start + seconds(1'000'000)));
}

TEST_CASE("a run stops while the longest step and save still fit") {
  const TimeLimit limit(start + seconds(1000), start);
  // A save of 100 s takes up to 150 s, steps of 10 s are two until the request is answered, the end 3 s: 183 s.
  CHECK_FALSE(limit.must_stop(10, 100, start + seconds(816)));
  CHECK(limit.must_stop(10, 100, start + seconds(818)));
  CHECK_FALSE(limit.must_stop(0, 0, start + seconds(996)));
  CHECK(limit.must_stop(0, 0, start + seconds(998)));
}

TEST_CASE("a save that was never measured counts as a tenth of the limit, or a minute") {
  const TimeLimit limit(start + seconds(100), start), day(start + seconds(86400), start);
  CHECK_FALSE(limit.must_stop(0, std::nullopt, start + seconds(100 - 3 - 16)));
  CHECK(limit.must_stop(0, std::nullopt, start + seconds(100 - 3 - 14)));
  CHECK_FALSE(day.must_stop(0, std::nullopt, start + seconds(86400 - 3 - 91)));
  CHECK(day.must_stop(0, std::nullopt, start + seconds(86400 - 3 - 89)));
}

TEST_CASE("after the deadline a run stops at once") {
  CHECK(TimeLimit(start - seconds(5), start).must_stop(0, 0, start));
}

}  // namespace
}  // namespace llmtrain
