// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/schedules/length_schedule.h"

#include <algorithm>
#include <cmath>

namespace llmtrain {

std::int64_t LengthSchedule::at(std::int64_t t) const {
  if (t >= recipe_.steps) return longest_;
  const double way = std::pow(static_cast<double>(t) / static_cast<double>(recipe_.steps), 1 / recipe_.degree);
  const double grown = way * static_cast<double>(longest_ - recipe_.start);
  // Ranks on different processors must agree: where the exact value is whole, the last bit of a power must not decide.
  constexpr double rounding = 1e-9;
  const std::int64_t length = recipe_.start + static_cast<std::int64_t>(std::floor(grown + rounding));
  return std::clamp(length - length % recipe_.multiple, std::min(recipe_.start, longest_), longest_);
}

std::optional<std::int64_t> LengthSchedule::next_change(std::int64_t t) const {
  const std::int64_t here = at(t);
  if (here == longest_) return std::nullopt;
  // Lengths never fall, so that the first longer one is found by halving what lies between.
  std::int64_t same = t, longer = std::max(recipe_.steps, t + 1);
  while (longer - same > 1) {
    const std::int64_t middle = same + (longer - same) / 2;
    (at(middle) == here ? same : longer) = middle;
  }
  return longer;
}

}  // namespace llmtrain
