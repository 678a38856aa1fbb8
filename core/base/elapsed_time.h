// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace llmtrain {

// Seconds from one moment to another of the same clock; negative where the other comes first.
template <class Clock, class Duration>
double seconds_between(std::chrono::time_point<Clock, Duration> from, std::chrono::time_point<Clock, Duration> to) {
  return std::chrono::duration<double>(to - from).count();
}

// By the monotonic clock, which nobody sets.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return seconds_between(start, std::chrono::steady_clock::now());
}

}  // namespace llmtrain
