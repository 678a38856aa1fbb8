// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "parallel/engine/captured_passes.h"

namespace llmtrain::test {
namespace {

std::vector<std::size_t> slots(const ScheduleShape& shape, std::int32_t stage) {
  const Schedule schedule = make_schedule(shape);
  return activation_slots(schedule.ranks[static_cast<std::size_t>(stage % shape.pipeline)], stage);
}

using Slots = std::vector<std::size_t>;

}  // namespace

TEST_CASE("Micro-batches in flight have activations of their own, and others take what is free") {
  CHECK(slots({.kind = PipelineSchedule::one_forward_one_backward, .micro_batches = 4}, 0) == Slots{0, 0, 0, 0});
  CHECK(slots({.kind = PipelineSchedule::gpipe, .micro_batches = 4}, 0) == Slots{0, 1, 2, 3});
  const ScheduleShape pipeline{.kind = PipelineSchedule::one_forward_one_backward, .pipeline = 3, .micro_batches = 6};
  CHECK(slots(pipeline, 0) == Slots{0, 1, 2, 0, 1, 2});
  CHECK(slots(pipeline, 1) == Slots{0, 1, 0, 1, 0, 1});
  CHECK(slots(pipeline, 2) == Slots{0, 0, 0, 0, 0, 0});
  // Counted by hand in Narayanan et al., figure 4: the second stage of the first rank starts before the first backward.
  const ScheduleShape loops{.kind = PipelineSchedule::interleaved, .pipeline = 2, .loops = 2, .micro_batches = 4};
  for (const std::int32_t stage : {0, 1, 2, 3}) {
    const Slots of_stage = slots(loops, stage);
    CHECK(of_stage.size() == 4);
    CHECK(std::ranges::max(of_stage) < 4);
  }
}

}  // namespace llmtrain::test
