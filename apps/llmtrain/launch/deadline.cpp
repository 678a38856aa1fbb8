// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/deadline.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace llmtrain::app {
namespace {

using WallClock = std::chrono::system_clock;

std::optional<WallClock::time_point> end_of_job() {
  const char* text = std::getenv("SLURM_JOB_END_TIME");
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  std::int64_t seconds = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
  // A job without a limit ends in the year 2106 or has no such variable; 1e10 keeps the clock from overflowing.
  if (failure != std::errc() || end != digits.data() + digits.size() || seconds <= 0 || seconds > 10'000'000'000)
    return std::nullopt;
  return WallClock::time_point(std::chrono::seconds(seconds));
}

}  // namespace

std::optional<WallClock::time_point> deadline_of(const Recipe& recipe) {
  std::optional<WallClock::time_point> deadline = end_of_job();
  if (const double limit = recipe.launch.time_limit_seconds; limit > 0) {
    const auto own =
        WallClock::now() + std::chrono::duration_cast<WallClock::duration>(std::chrono::duration<double>(limit));
    deadline = deadline ? std::min(*deadline, own) : own;
  }
  return deadline;
}

}  // namespace llmtrain::app
