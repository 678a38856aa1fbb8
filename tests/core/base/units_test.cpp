// SPDX-License-Identifier: Apache-2.0
#include "core/base/units.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>

namespace llmtrain {
namespace {

TEST_CASE("Bytes are powers of 1024 with three significant digits") {
  const auto [bytes, text] = GENERATE(
      std::pair<std::int64_t, std::string>{0, "0 B"}, std::pair<std::int64_t, std::string>{12, "12 B"},
      std::pair<std::int64_t, std::string>{1023, "1023 B"}, std::pair<std::int64_t, std::string>{1024, "1.00 KiB"},
      std::pair<std::int64_t, std::string>{1536, "1.50 KiB"},
      std::pair<std::int64_t, std::string>{10 * 1024, "10.0 KiB"},
      std::pair<std::int64_t, std::string>{812 * 1024, "812 KiB"},
      std::pair<std::int64_t, std::string>{std::int64_t{3} << 30, "3.00 GiB"},
      std::pair<std::int64_t, std::string>{std::int64_t{80} << 30, "80.0 GiB"},
      std::pair<std::int64_t, std::string>{std::int64_t{5} << 50, "5.00 PiB"},
      std::pair<std::int64_t, std::string>{std::int64_t{2000} << 50, "2000 PiB"});
  CHECK(format_bytes(bytes) == text);
}

TEST_CASE("Bytes below zero keep their sign and unit") { CHECK(format_bytes(-2 * 1024 * 1024) == "-2.00 MiB"); }

TEST_CASE("Counts are powers of 1000 with one decimal") {
  const auto [count, text] =
      GENERATE(std::pair<double, std::string>{0, "0"}, std::pair<double, std::string>{999, "999"},
               std::pair<double, std::string>{1200, "1.2k"}, std::pair<double, std::string>{124'439'808, "124.4M"},
               std::pair<double, std::string>{6'738'415'616, "6.7B"}, std::pair<double, std::string>{1.5e12, "1.5T"},
               std::pair<double, std::string>{2e16, "20000.0T"});
  CHECK(format_count(count) == text);
}

TEST_CASE("Durations show two units at most") {
  const auto [seconds, text] =
      GENERATE(std::pair<double, std::string>{0, "0ms"}, std::pair<double, std::string>{0.0852, "85ms"},
               std::pair<double, std::string>{1, "1.0s"}, std::pair<double, std::string>{12.34, "12.3s"},
               std::pair<double, std::string>{60, "1m 00s"}, std::pair<double, std::string>{245, "4m 05s"},
               std::pair<double, std::string>{3600, "1h 00m"}, std::pair<double, std::string>{86399, "23h 59m"},
               std::pair<double, std::string>{86400, "1d 0h"}, std::pair<double, std::string>{183600, "2d 3h"});
  CHECK(format_duration(seconds) == text);
}

TEST_CASE("Short times are in microseconds, and nouns in their number") {
  CHECK(format_duration(0.00036) == "360µs");
  CHECK(format_duration(0.0009996) == "1ms");
  CHECK(format_duration(0) == "0ms");
  CHECK(format_number_of(1, "file") == "1 file");
  CHECK(format_number_of(0, "file") == "0 files");
  CHECK(format_number_of(1200, "file") == "1200 files");
}

// A value that rounds up to the next unit is written in that unit: no "60.0s", "1000ms", "1024 KiB" or "1000.0k".
TEST_CASE("A value that rounds up to the next unit uses it") {
  CHECK(format_duration(0.9999) == "1.0s");
  CHECK(format_duration(59.97) == "1m 00s");
  CHECK(format_bytes((std::int64_t{1} << 20) - 1) == "1.00 MiB");
  CHECK(format_count(999'999) == "1.0M");
  CHECK(format_count(999.7) == "1.0k");
}

}  // namespace
}  // namespace llmtrain
