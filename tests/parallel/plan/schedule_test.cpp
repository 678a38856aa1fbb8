// SPDX-License-Identifier: Apache-2.0
#include "parallel/schedule/schedule.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/parallel/plan/schedule_text.h"

namespace llmtrain {
namespace {

using Kind = PipelineSchedule;

RankSchedule single_rank_schedule(const ScheduleShape& shape) { return make_schedule(shape).ranks.at(0); }

std::string text(Kind kind, std::int32_t loops, std::int32_t micro_batches) {
  return to_text(single_rank_schedule({.kind = kind, .pipeline = 1, .loops = loops, .micro_batches = micro_batches}));
}

TEST_CASE("an instruction's line contains exactly its fields") {
  CHECK(to_text({.operation = Operation::forward, .stage = 2, .micro = 0}) == "Forward stage 2 micro 0");
  CHECK(to_text({.operation = Operation::backward, .stage = 0, .micro = 3}) == "Backward stage 0 micro 3");
  CHECK(to_text({.operation = Operation::send_activation, .stage = 2, .micro = 0, .peer = 1}) ==
        "SendActivation stage 2 micro 0 peer 1");
  CHECK(to_text({.operation = Operation::receive_activation, .stage = 3, .micro = 0, .peer = 0}) ==
        "RecvActivation stage 3 micro 0 peer 0");
  CHECK(to_text({.operation = Operation::send_gradient, .stage = 1, .micro = 4, .peer = 2}) ==
        "SendGradient stage 1 micro 4 peer 2");
  CHECK(to_text({.operation = Operation::receive_gradient, .stage = 1, .micro = 4, .peer = 2}) ==
        "RecvGradient stage 1 micro 4 peer 2");
  CHECK(to_text({.operation = Operation::gather_weights, .stage = 5}) == "GatherWeights stage 5");
  CHECK(to_text({.operation = Operation::free_weights, .stage = 5}) == "FreeWeights stage 5");
  CHECK(to_text({.operation = Operation::reduce_gradients, .stage = 0}) == "ReduceGradients stage 0");
  CHECK(to_text({.operation = Operation::optimizer_step}) == "OptimizerStep");
}

struct LoneRankCase {
  std::vector<Kind> kinds;
  std::int32_t loops, micro_batches;
  std::string order;  // as pass_text() has it
};

const std::vector<LoneRankCase> lone_rank_cases = {
    // Every micro-batch through a stage before the next stage.
    {{Kind::breadth_first, Kind::gpipe}, 2, 3, "F0.0 F0.1 F0.2 F1.0 F1.1 F1.2 B1.0 B1.1 B1.2 B0.0 B0.1 B0.2 step"},
    // One micro-batch after the other.
    {{Kind::one_forward_one_backward, Kind::interleaved},
     3,
     2,
     "F0.0 F1.0 F2.0 B2.0 B1.0 B0.0 F0.1 F1.1 F2.1 B2.1 B1.1 B0.1 step"},
};

TEST_CASE("the order of the passes of one rank") {
  for (const auto& [kinds, loops, micro_batches, order] : lone_rank_cases) {
    for (const Kind kind : kinds) {
      const RankSchedule schedule =
          single_rank_schedule({.kind = kind, .pipeline = 1, .loops = loops, .micro_batches = micro_batches});
      CHECK(pass_text(schedule) == order);
      // Nothing else: there is no one to exchange with.
      CHECK(std::ssize(schedule.instructions) == 2 * loops * micro_batches + 1);
    }
  }
}

TEST_CASE("one stage and one micro-batch are the same for every schedule") {
  for (const Kind kind : {Kind::breadth_first, Kind::gpipe, Kind::one_forward_one_backward, Kind::interleaved})
    CHECK(text(kind, 1, 1) == "Forward stage 0 micro 0\nBackward stage 0 micro 0\nOptimizerStep\n");
}

ScheduleShape any_shape() {
  return {
      .kind = *rc::gen::element(Kind::breadth_first, Kind::gpipe, Kind::one_forward_one_backward, Kind::interleaved),
      .pipeline = 1,
      .loops = *rc::gen::inRange(1, 14),
      .micro_batches = *rc::gen::inRange(1, 18)};
}

using StageAndMicro = std::pair<std::int32_t, std::int32_t>;

// The position of each (stage, micro-batch) in the schedule; none may occur twice.
std::map<StageAndMicro, std::size_t> places(const RankSchedule& schedule, Operation operation) {
  std::map<StageAndMicro, std::size_t> result;
  for (std::size_t i = 0; i < schedule.instructions.size(); ++i) {
    const Instruction& instruction = schedule.instructions[i];
    if (instruction.operation != operation) continue;
    RC_ASSERT(result.emplace(StageAndMicro{instruction.stage, instruction.micro}, i).second);
  }
  return result;
}

TEST_CASE("properties of every schedule of one rank") {
  rc::prop("each stage runs each micro-batch once forward and once backward, and the optimizer comes last", [] {
    const ScheduleShape shape = any_shape();
    const RankSchedule schedule = single_rank_schedule(shape);
    const auto pairs = static_cast<std::size_t>(shape.stages() * shape.micro_batches);
    const auto forward = places(schedule, Operation::forward), backward = places(schedule, Operation::backward);
    for (std::int32_t stage = 0; stage < shape.stages(); ++stage)
      for (std::int32_t micro = 0; micro < shape.micro_batches; ++micro) {
        RC_ASSERT(forward.count({stage, micro}) == 1U);
        RC_ASSERT(backward.count({stage, micro}) == 1U);
      }
    RC_ASSERT(schedule.instructions.size() == 2 * pairs + 1);
    RC_ASSERT(schedule.instructions.back() == Instruction{.operation = Operation::optimizer_step});
  });

  rc::prop("activations flow up the stages, gradients down, and each backward follows its forward", [] {
    const ScheduleShape shape = any_shape();
    const RankSchedule schedule = single_rank_schedule(shape);
    const auto forward = places(schedule, Operation::forward), backward = places(schedule, Operation::backward);
    for (std::int32_t micro = 0; micro < shape.micro_batches; ++micro) {
      for (std::int32_t stage = 1; stage < shape.stages(); ++stage) {
        RC_ASSERT(forward.at({stage - 1, micro}) < forward.at({stage, micro}));
        RC_ASSERT(backward.at({stage, micro}) < backward.at({stage - 1, micro}));
      }
      RC_ASSERT(forward.at({shape.stages() - 1, micro}) < backward.at({shape.stages() - 1, micro}));
    }
  });

  rc::prop("each stage sums its gradients in the order of the micro-batches", [] {
    const ScheduleShape shape = any_shape();
    const auto backward = places(single_rank_schedule(shape), Operation::backward);
    for (std::int32_t stage = 0; stage < shape.stages(); ++stage)
      for (std::int32_t micro = 1; micro < shape.micro_batches; ++micro)
        RC_ASSERT(backward.at({stage, micro - 1}) < backward.at({stage, micro}));
  });

  rc::prop("breadth-first stores the activations of all micro-batches, 1f1b of one", [] {
    const ScheduleShape shape = any_shape();
    const bool all = shape.kind == Kind::breadth_first || shape.kind == Kind::gpipe;
    const std::int64_t micro_batches = all ? shape.micro_batches : 1;
    RC_ASSERT(most_in_flight(single_rank_schedule(shape)) == shape.stages() * micro_batches);
  });
}

}  // namespace
}  // namespace llmtrain
