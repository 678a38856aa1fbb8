// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "core/base/error.h"
#include "parallel/schedule/schedule.h"
#include "tests/parallel/plan/random_shape.h"
#include "tests/parallel/plan/schedule_text.h"

namespace llmtrain {
namespace {

using Kind = PipelineSchedule;

std::vector<std::string> passes(const ScheduleShape& shape) {
  std::vector<std::string> lines;
  for (const RankSchedule& rank : make_schedule(shape).ranks) lines.push_back(pass_text(rank));
  return lines;
}

bool is_made(const ScheduleShape& shape) {
  try {
    make_schedule(shape);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::internal_error);
    return false;
  }
  return true;
}

TEST_CASE("1f1b on four ranks is figure 4 (top) of arXiv 2104.04473") {
  CHECK(passes({.kind = Kind::one_forward_one_backward, .pipeline = 4, .micro_batches = 6}) ==
        std::vector<std::string>{"F0.0 F0.1 F0.2 F0.3 B0.0 F0.4 B0.1 F0.5 B0.2 B0.3 B0.4 B0.5 step",
                                 "F1.0 F1.1 F1.2 B1.0 F1.3 B1.1 F1.4 B1.2 F1.5 B1.3 B1.4 B1.5 step",
                                 "F2.0 F2.1 B2.0 F2.2 B2.1 F2.3 B2.2 F2.4 B2.3 F2.5 B2.4 B2.5 step",
                                 "F3.0 B3.0 F3.1 B3.1 F3.2 B3.2 F3.3 B3.3 F3.4 B3.4 F3.5 B3.5 step"});
}

TEST_CASE("interleaved on four ranks with two stages each is figure 4 (bottom) of arXiv 2104.04473") {
  const auto lines = passes({.kind = Kind::interleaved, .pipeline = 4, .loops = 2, .micro_batches = 8});
  CHECK(lines.front() ==
        "F0.0 F0.1 F0.2 F0.3 F4.0 F4.1 F4.2 F4.3 F0.4 F0.5 F0.6 B4.0 F0.7 B4.1 F4.4 B4.2 F4.5 B4.3 F4.6 B0.0 F4.7 B0.1 "
        "B0.2 B0.3 B4.4 B4.5 B4.6 B4.7 B0.4 B0.5 B0.6 B0.7 step");
  CHECK(lines.back() ==
        "F3.0 F3.1 F3.2 F3.3 F7.0 B7.0 F7.1 B7.1 F7.2 B7.2 F7.3 B7.3 F3.4 B3.0 F3.5 B3.1 F3.6 B3.2 F3.7 B3.3 F7.4 B7.4 "
        "F7.5 B7.5 F7.6 B7.6 F7.7 B7.7 B3.4 B3.5 B3.6 B3.7 step");
}

TEST_CASE("breadth-first runs all micro-batches through a stage, then through the rank's next one") {
  CHECK(passes({.kind = Kind::breadth_first, .pipeline = 2, .loops = 2, .micro_batches = 3}) ==
        std::vector<std::string>{"F0.0 F0.1 F0.2 F2.0 F2.1 F2.2 B2.0 B2.1 B2.2 B0.0 B0.1 B0.2 step",
                                 "F1.0 F1.1 F1.2 F3.0 F3.1 F3.2 B3.0 B3.1 B3.2 B1.0 B1.1 B1.2 step"});
  CHECK(passes({.kind = Kind::gpipe, .pipeline = 2, .micro_batches = 2}) ==
        std::vector<std::string>{"F0.0 F0.1 B0.0 B0.1 step", "F1.0 F1.1 B1.0 B1.1 step"});
}

TEST_CASE("interleaved with one stage per rank is 1f1b") {
  ScheduleShape shape{.kind = Kind::interleaved, .pipeline = 3, .loops = 1, .micro_batches = 5};
  const auto interleaved = passes(shape);
  shape.kind = Kind::one_forward_one_backward;
  CHECK(interleaved == passes(shape));
}

TEST_CASE("transfers surround the passes, and every rank has its header") {
  CHECK(to_text(make_schedule({.kind = Kind::breadth_first, .pipeline = 2, .loops = 2, .micro_batches = 1})) ==
        "Rank 0\n"
        "Forward stage 0 micro 0\n"
        "SendActivation stage 0 micro 0 peer 1\n"
        "RecvActivation stage 2 micro 0 peer 1\n"
        "Forward stage 2 micro 0\n"
        "SendActivation stage 2 micro 0 peer 1\n"
        "RecvGradient stage 2 micro 0 peer 1\n"
        "Backward stage 2 micro 0\n"
        "SendGradient stage 2 micro 0 peer 1\n"
        "RecvGradient stage 0 micro 0 peer 1\n"
        "Backward stage 0 micro 0\n"
        "OptimizerStep\n"
        "Rank 1\n"
        "RecvActivation stage 1 micro 0 peer 0\n"
        "Forward stage 1 micro 0\n"
        "SendActivation stage 1 micro 0 peer 0\n"
        "RecvActivation stage 3 micro 0 peer 0\n"
        "Forward stage 3 micro 0\n"
        "Backward stage 3 micro 0\n"
        "SendGradient stage 3 micro 0 peer 0\n"
        "RecvGradient stage 1 micro 0 peer 0\n"
        "Backward stage 1 micro 0\n"
        "SendGradient stage 1 micro 0 peer 0\n"
        "OptimizerStep\n");
}

TEST_CASE("a shape that the rules of recipes refuse has no schedule") {
  CHECK(!is_made({.kind = Kind::gpipe, .pipeline = 2, .loops = 2, .micro_batches = 4}));
  CHECK(!is_made({.kind = Kind::one_forward_one_backward, .pipeline = 2, .loops = 3, .micro_batches = 4}));
  CHECK(!is_made({.kind = Kind::interleaved, .pipeline = 4, .loops = 2, .micro_batches = 7}));
  CHECK(is_made({.kind = Kind::interleaved, .pipeline = 4, .loops = 1, .micro_batches = 7}));
  CHECK(is_made({.kind = Kind::interleaved, .pipeline = 1, .loops = 2, .micro_batches = 7}));
  CHECK(is_made({.kind = Kind::breadth_first, .pipeline = 4, .loops = 2, .micro_batches = 1}));
}

TEST_CASE("activations in flight") {
  rc::prop("breadth-first and gpipe hold all, 1f1b as many as ranks from this one on, interleaved its warm-up", [] {
    const ScheduleShape shape = random_shape();
    const Schedule schedule = make_schedule(shape);
    for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) {
      const std::int32_t all = shape.micro_batches * shape.loops;
      const std::int32_t ranks_behind = shape.pipeline - rank - 1;
      std::int32_t expected = all;
      const bool depth_first = shape.kind == Kind::one_forward_one_backward || shape.kind == Kind::interleaved;
      if (depth_first && shape.pipeline == 1) expected = shape.loops;
      if (depth_first && shape.pipeline > 1 && shape.loops == 1) expected = std::min(all, ranks_behind + 1);
      if (depth_first && shape.pipeline > 1 && shape.loops > 1)
        expected = std::min(all, 2 * ranks_behind + (shape.loops - 1) * shape.pipeline + 1);
      RC_ASSERT(most_in_flight(schedule.ranks[static_cast<std::size_t>(rank)]) == expected);
    }
  });

  rc::prop("gradients cross every cut behind a stage that is trained, and no other", [] {
    const ScheduleShape shape = random_frozen_shape();
    std::map<std::int32_t, std::int32_t> sent, received;  // by the stage that is sent to
    for (const RankSchedule& rank : make_schedule(shape).ranks)
      for (const Instruction& instruction : rank.instructions) {
        if (instruction.operation == Operation::send_gradient) ++sent[instruction.stage - 1];
        if (instruction.operation == Operation::receive_gradient) ++received[instruction.stage];
      }
    RC_ASSERT(sent == received);
    for (std::int32_t stage = 0; stage + 1 < shape.stages(); ++stage) {
      const bool crosses = shape.pipeline > 1 && stage >= shape.frozen_stages;
      RC_ASSERT(sent[stage] == (crosses ? shape.micro_batches : 0));
    }
  });

  rc::prop("each stage sums its gradients in the order of the micro-batches", [] {
    const ScheduleShape shape = random_shape();
    for (const RankSchedule& rank : make_schedule(shape).ranks) {
      std::vector<std::int32_t> next(static_cast<std::size_t>(shape.stages()), 0);
      for (const Instruction& instruction : rank.instructions) {
        if (instruction.operation != Operation::backward) continue;
        RC_ASSERT(instruction.micro == next[static_cast<std::size_t>(instruction.stage)]++);
      }
    }
  });
}

}  // namespace
}  // namespace llmtrain
