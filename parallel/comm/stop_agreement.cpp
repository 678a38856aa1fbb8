// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/stop_agreement.h"

#include <algorithm>

#include "core/base/elapsed_time.h"
#include "parallel/comm/agreement.h"

namespace llmtrain {

bool StopAgreement::ends(const std::function<bool()>& asks) {
  if (left_-- > 0) return false;
  constexpr std::int64_t stop = -1;
  const Clock::time_point now = Clock::now();
  const auto said = exchange_numbers(communicator_, asks() ? stop : rounds_until_next(now));
  if (std::ranges::find(said, stop) != said.end()) return true;
  // Clocks differ: the first rank's decides for all.
  rounds_ = said.front();
  left_ = rounds_ - 1;
  last_ = now;
  return false;
}

std::int64_t StopAgreement::rounds_until_next(Clock::time_point now) const {
  constexpr double interval = 0.2;
  // The first round also warms up caches.
  if (rounds_ == 0) return 1;
  const double pace = seconds_between(last_, now) / static_cast<double>(rounds_);
  // No more than twice as many as before: one quick round says little of the next.
  const double rounds = std::min(interval / std::max(pace, 1e-9), 2.0 * static_cast<double>(rounds_));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(rounds));
}

}  // namespace llmtrain
