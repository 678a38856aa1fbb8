// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/graph/exchange_method.h"

namespace llmtrain {

// What was measured of a method in one step.
struct ExchangeTrial {
  std::int64_t step = 0;   // from 0
  std::size_t bucket = 0;  // of the micro-batches
  ExchangeMethod method;
  double seconds = 0;  // of a pass of rows through the experts, in the mean over passes and ranks

  bool operator==(const ExchangeTrial&) const = default;
};

struct MethodChoice {
  std::size_t method = 0;
  bool is_final = false;  // all that need be measured is
};

// Which method comes next, after these times of each (each method's in the order in which they were measured). Methods
// are measured in turns, so that slow phases of the machine meet all of them; the first time, which warms up caches,
// does not count, and those far slower than the fastest drop out. In the end the one with the least median is chosen,
// of equals the first.
MethodChoice next_method(const std::vector<std::vector<double>>& seconds);

}  // namespace llmtrain
