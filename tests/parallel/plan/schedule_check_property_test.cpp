// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "parallel/schedule/schedule.h"
#include "tests/parallel/plan/random_shape.h"

namespace llmtrain {
namespace {

using List = std::vector<Instruction>;

bool accepts(const Schedule& schedule, std::int32_t buffers) {
  try {
    check(schedule, buffers);
  } catch (const Error&) {
    return false;
  }
  return true;
}

// The list of a random rank.
List& some_list(Schedule& schedule) {
  return schedule.ranks[*rc::gen::inRange<std::size_t>(0, schedule.ranks.size())].instructions;
}

std::size_t some_place(const List& list) { return *rc::gen::inRange<std::size_t>(0, list.size()); }

// A number from 0 to `end` − 1 that is not `value`, or -1 without another.
std::int32_t another(std::int32_t value, std::int32_t end) {
  return end < 2 ? -1 : (value + *rc::gen::inRange(1, end)) % end;
}

TEST_CASE("check() accepts what make_schedule() makes, and nothing that was modified") {
  rc::prop("every schedule runs with as many buffers as micro-batches, depth-first with one", [] {
    const ScheduleShape shape = random_frozen_shape();
    const Schedule schedule = make_schedule(shape);
    check(schedule, shape.micro_batches);
    if (shape.kind != PipelineSchedule::breadth_first) check(schedule, 1);
  });

  rc::prop("no instruction can be omitted", [] {
    Schedule schedule = make_schedule(random_frozen_shape());
    List& list = some_list(schedule);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(some_place(list)));
    RC_ASSERT(!accepts(schedule, schedule.shape.micro_batches));
  });

  rc::prop("no instruction can be duplicated", [] {
    Schedule schedule = make_schedule(random_frozen_shape());
    List& list = some_list(schedule);
    const Instruction copy = list[some_place(list)];
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(some_place(list)), copy);
    RC_ASSERT(!accepts(schedule, schedule.shape.micro_batches));
  });

  rc::prop("no instruction can be for another stage, micro-batch or neighbour", [] {
    Schedule schedule = make_schedule(random_frozen_shape());
    const ScheduleShape& shape = schedule.shape;
    List& list = some_list(schedule);
    Instruction& instruction = list[some_place(list)];
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        instruction.stage = another(instruction.stage, shape.stages());
        break;
      case 1:
        instruction.micro = instruction.micro < 0 ? 0 : another(instruction.micro, shape.micro_batches);
        break;
      default:
        instruction.peer = instruction.peer < 0 ? 0 : another(instruction.peer, shape.pipeline);
    }
    RC_PRE(instruction.operation != Operation::optimizer_step || instruction.stage != -1 || instruction.micro != -1 ||
           instruction.peer != -1);
    RC_ASSERT(!accepts(schedule, shape.micro_batches));
  });
}

}  // namespace
}  // namespace llmtrain
