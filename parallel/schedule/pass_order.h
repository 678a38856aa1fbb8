// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace llmtrain {

enum class Direction : std::uint8_t { forward, backward };

// One pass of one micro-batch through one stage of a rank.
struct Pass {
  Direction direction{};
  std::int32_t stage = 0;
  std::int32_t micro = 0;

  bool operator==(const Pass&) const = default;
};

// The passes of a pipeline rank in the order that make_schedule() documents. The shape must be valid.
std::vector<Pass> pass_order(const ScheduleShape& shape, std::int32_t rank);

// The maximum number of forward passes whose backward is outstanding on a pipeline rank: micro-batches in flight,
// summed over its stages.
double passes_in_flight(const ScheduleShape& shape, std::int32_t rank);

}  // namespace llmtrain
