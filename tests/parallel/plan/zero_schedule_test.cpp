// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "parallel/schedule/schedule.h"
#include "tests/parallel/plan/random_shape.h"
#include "tests/parallel/plan/schedule_text.h"

namespace llmtrain {
namespace {

using Kind = PipelineSchedule;

ScheduleShape zero(std::int32_t zero_stage, Kind kind, std::int32_t pipeline, std::int32_t loops,
                   std::int32_t micro_batches) {
  return {.kind = kind,
          .pipeline = pipeline,
          .loops = loops,
          .micro_batches = micro_batches,
          .zero_stage = zero_stage,
          .reduces = true};
}

std::string first_rank(const ScheduleShape& shape) { return pass_text(make_schedule(shape).ranks.front()); }

TEST_CASE("breadth-first with ZeRO-3 gathers a stage for all micro-batches, one stage ahead") {
  CHECK(first_rank(zero(3, Kind::breadth_first, 2, 2, 2)) ==
        "+0 +2 F0.0 F0.1 -0 F2.0 F2.1 -2 +2 +0 B2.0 B2.1 -2 R2 B0.0 B0.1 -0 R0 step");
  CHECK(first_rank(zero(3, Kind::breadth_first, 1, 3, 1)) ==
        "+0 +1 F0.0 -0 +2 F1.0 -1 F2.0 -2 +2 +1 B2.0 -2 +0 R2 B1.0 -1 R1 B0.0 -0 R0 step");
  CHECK(first_rank(zero(3, Kind::gpipe, 1, 1, 2)) == "+0 F0.0 F0.1 -0 +0 B0.0 B0.1 -0 R0 step");
}

TEST_CASE("ordinary FSDP (ZeRO-3) gathers and reduces for every micro-batch") {
  CHECK(first_rank(zero(3, Kind::interleaved, 1, 2, 2)) ==
        "+0 +1 F0.0 -0 F1.0 -1 +1 +0 B1.0 -1 R1 B0.0 -0 +0 +1 R0 F0.1 -0 F1.1 -1 +1 +0 B1.1 -1 R1 B0.1 -0 R0 step");
  CHECK(first_rank(zero(3, Kind::one_forward_one_backward, 2, 1, 2)) ==
        "+0 F0.0 -0 +0 F0.1 -0 +0 B0.0 -0 +0 R0 B0.1 -0 R0 step");
}

TEST_CASE("interleaved with ZeRO-3 gathers for as many micro-batches as ranks, one stage in each direction") {
  CHECK(
      pass_text(make_schedule(zero(3, Kind::interleaved, 2, 2, 4)).ranks[1]) ==
      "+1 +3 F1.0 F1.1 -1 +1 F3.0 B3.0 F3.1 B3.1 -3 +3 R3 F1.2 B1.0 F1.3 B1.1 -1 +1 R1 F3.2 B3.2 F3.3 B3.3 -3 R3 B1.2 "
      "B1.3 -1 R1 step");
}

TEST_CASE("a stage is updated once its gradients are final, beside the next one's reduction") {
  const auto updated = [](ScheduleShape shape, bool reduces) {
    shape.updates_by_stage = true;
    shape.reduces = reduces;
    return first_rank(shape);
  };
  CHECK(updated(zero(0, Kind::breadth_first, 1, 3, 2), false) ==
        "F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 B2.0 B2.1 U2 B1.0 B1.1 U1 B0.0 B0.1 U0 step");
  // One micro-batch after another: no stage's gradients are final before the last one.
  CHECK(updated(zero(0, Kind::interleaved, 1, 2, 2), false) == "F0.0 F1.0 B1.0 B0.0 F0.1 F1.1 B1.1 U1 B0.1 U0 step");
  CHECK(updated(zero(0, Kind::breadth_first, 1, 3, 1), true) == "F0.0 F1.0 F2.0 B2.0 R2 B1.0 R1 U2 B0.0 R0 U1 U0 step");
  CHECK(updated(zero(1, Kind::breadth_first, 2, 2, 1), true) == "F0.0 F2.0 B2.0 R2 B0.0 R0 U2 +2 U0 +0 step");
  CHECK(updated(zero(3, Kind::breadth_first, 1, 2, 1), true) ==
        "+0 +1 F0.0 -0 F1.0 -1 +1 +0 B1.0 -1 R1 B0.0 -0 R0 U1 U0 step");
}

TEST_CASE("a stage's gradients leave once they are final, and all stages are updated at the end") {
  const auto evicted = [](ScheduleShape shape, bool reduces) {
    shape.evicts_gradients = true;
    shape.reduces = reduces;
    return first_rank(shape);
  };
  CHECK(evicted(zero(0, Kind::breadth_first, 1, 3, 2), false) ==
        "F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 B2.0 B2.1 E2 B1.0 B1.1 E1 B0.0 B0.1 E0 step");
  CHECK(evicted(zero(0, Kind::interleaved, 1, 2, 2), false) == "F0.0 F1.0 B1.0 B0.0 F0.1 F1.1 B1.1 E1 B0.1 E0 step");
  CHECK(evicted(zero(1, Kind::breadth_first, 2, 2, 1), true) == "F0.0 F2.0 B2.0 R2 B0.0 R0 E2 E0 step +0 +2");
  CHECK(evicted(zero(3, Kind::breadth_first, 1, 2, 1), true) ==
        "+0 +1 F0.0 -0 F1.0 -1 +1 +0 B1.0 -1 R1 B0.0 -0 R0 E1 E0 step");
}

TEST_CASE("gradients of resident stages, the last ones of each rank, do not leave") {
  const auto evicted = [](ScheduleShape shape, bool reduces, std::int32_t resident) {
    shape.evicts_gradients = true;
    shape.resident_stages = resident;
    shape.reduces = reduces;
    return first_rank(shape);
  };
  CHECK(evicted(zero(0, Kind::breadth_first, 1, 3, 1), false, 1) == "F0.0 F1.0 F2.0 B2.0 B1.0 E1 B0.0 E0 step");
  CHECK(evicted(zero(0, Kind::breadth_first, 1, 3, 1), true, 2) == "F0.0 F1.0 F2.0 B2.0 R2 B1.0 R1 B0.0 R0 E0 step");
  CHECK(evicted(zero(1, Kind::breadth_first, 2, 2, 1), true, 1) == "F0.0 F2.0 B2.0 R2 B0.0 R0 E0 step +0 +2");
}

TEST_CASE("ZeRO-0 to ZeRO-2 keep weights, and ZeRO-1 and ZeRO-2 gather what the step has updated") {
  CHECK(first_rank(zero(0, Kind::breadth_first, 2, 2, 2)) == "F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 R2 B0.0 B0.1 R0 step");
  CHECK(first_rank(zero(1, Kind::breadth_first, 2, 2, 2)) ==
        "F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 R2 B0.0 B0.1 R0 step +0 +2");
  CHECK(first_rank(zero(2, Kind::breadth_first, 2, 2, 2)) == first_rank(zero(1, Kind::breadth_first, 2, 2, 2)));
  CHECK(first_rank(zero(0, Kind::interleaved, 1, 2, 2)) == "F0.0 F1.0 B1.0 B0.0 F0.1 F1.1 B1.1 R1 B0.1 R0 step");
  CHECK(first_rank(zero(2, Kind::interleaved, 1, 2, 2)) ==
        "F0.0 F1.0 B1.0 R1 B0.0 R0 F0.1 F1.1 B1.1 R1 B0.1 R0 step +0 +1");
}

TEST_CASE("a single rank has nothing to gather or reduce") {
  ScheduleShape shape = zero(3, Kind::breadth_first, 1, 2, 1);
  shape.reduces = false;
  CHECK(first_rank(shape) == "F0.0 F1.0 B1.0 B0.0 step");
}

std::int64_t count(const RankSchedule& schedule, Operation operation, std::int32_t stage) {
  return std::count_if(schedule.instructions.begin(), schedule.instructions.end(), [&](const Instruction& instruction) {
    return instruction.operation == operation && instruction.stage == stage;
  });
}

TEST_CASE("how often weights are gathered and gradients reduced") {
  rc::prop("breadth-first gathers twice and reduces once per stage and step; depth-first once per group", [] {
    ScheduleShape shape = random_shape();
    shape.reduces = true;
    const Schedule schedule = make_schedule(shape);
    const bool all_at_once = shape.kind == Kind::breadth_first || shape.kind == Kind::gpipe;
    const bool grouped = shape.kind == Kind::interleaved && shape.loops > 1;
    const std::int32_t group = all_at_once ? shape.micro_batches : grouped ? shape.pipeline : 1;
    const std::int64_t groups = shape.micro_batches / group;
    for (std::int32_t stage = 0; stage < shape.stages(); ++stage) {
      const RankSchedule& rank = schedule.ranks[static_cast<std::size_t>(stage % shape.pipeline)];
      const std::int64_t gathers = count(rank, Operation::gather_weights, stage);
      const std::int64_t frees = count(rank, Operation::free_weights, stage);
      RC_ASSERT(count(rank, Operation::reduce_gradients, stage) == (shape.zero_stage >= 2 ? groups : 1));
      RC_ASSERT(frees == (shape.zero_stage == 3 ? gathers : 0));
      if (shape.zero_stage == 0) RC_ASSERT(gathers == 0);
      if (shape.zero_stage == 1 || shape.zero_stage == 2) RC_ASSERT(gathers == 1);
      if (shape.zero_stage == 3 && group == shape.micro_batches) RC_ASSERT(gathers <= 2 * groups);
      if (shape.zero_stage == 3 && (all_at_once || !grouped)) RC_ASSERT(gathers == 2 * groups);
      // A stage in use in both directions at once is gathered for both.
      if (shape.zero_stage == 3 && grouped) RC_ASSERT((gathers >= groups && gathers <= 2 * groups));
    }
  });

  rc::prop("frozen stages are gathered once per group, for the forward", [] {
    ScheduleShape shape = random_frozen_shape();
    shape.reduces = true;
    shape.zero_stage = 3;
    const Schedule schedule = make_schedule(shape);
    for (std::int32_t stage = 0; stage < shape.frozen_stages; ++stage) {
      const RankSchedule& rank = schedule.ranks[static_cast<std::size_t>(stage % shape.pipeline)];
      RC_ASSERT(count(rank, Operation::gather_weights, stage) == shape.micro_batches / shape.gather_group());
    }
  });

  rc::prop("at most two stages are gathered at once, and every pass that reads weights finds its own", [] {
    ScheduleShape shape = random_frozen_shape();
    shape.reduces = true;
    shape.zero_stage = 3;
    for (const RankSchedule& rank : make_schedule(shape).ranks) {
      std::vector<bool> held(static_cast<std::size_t>(shape.stages()), false);
      for (const Instruction& instruction : rank.instructions) {
        const auto stage = static_cast<std::size_t>(std::max(instruction.stage, 0));
        const bool reads = instruction.operation == Operation::forward ||
                           (instruction.operation == Operation::backward && instruction.stage >= shape.frozen_stages);
        if (reads) RC_ASSERT(held[stage]);
        if (instruction.operation == Operation::gather_weights) RC_ASSERT(!held[stage]);
        if (instruction.operation == Operation::gather_weights) held[stage] = true;
        if (instruction.operation == Operation::free_weights) held[stage] = false;
        RC_ASSERT(std::count(held.begin(), held.end(), true) <= 2);
      }
    }
  });
}

}  // namespace
}  // namespace llmtrain
