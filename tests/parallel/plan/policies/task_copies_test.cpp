// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/policies/task_copies.h"

#include <catch2/catch.hpp>
#include <vector>

#include "core/residency/residency_check.h"
#include "core/residency/residency_policy.h"

namespace llmtrain::test {
namespace {

// Three weights of 4, 4 and 2 bytes, each changed by a task of its own.
RankTasks three_tasks() {
  RankTasks tasks;
  tasks.sequence.tensors = {{"a", 4, true}, {"b", 4, true}, {"c", 2, true}};
  for (std::size_t tensor = 0; tensor < 3; ++tensor)
    tasks.sequence.tasks.push_back({{{tensor, Access::change, false}}, 0, TaskPlace::device});
  tasks.instructions = {0, 2, 3};
  tasks.updates = {-1, -1, -1};
  return tasks;
}

}  // namespace

TEST_CASE("moves become copies of their instructions, at the bytes per second of the way") {
  const RankTasks tasks = three_tasks();
  const ResidencyPlan plan = plan_residency(tasks.sequence, 6, {});
  check_residency(tasks.sequence, plan, 6);
  const auto copies = task_copies(tasks, plan, 6, {2, {}}, 5);
  REQUIRE(copies.size() == 5);
  REQUIRE(copies[0].before.size() == 1);
  CHECK(copies[0].before[0].lane == CopyLane::to_device);
  CHECK(copies[0].before[0].seconds == 2);
  CHECK(copies[1].before.empty());
  // The first one leaves for the second, and both directions are those of the moves.
  REQUIRE(copies[2].before.size() == 2);
  CHECK(copies[2].before[0].lane == CopyLane::to_host);
  CHECK(copies[2].before[1].lane == CopyLane::to_device);
  // There is room for the third beside the second.
  CHECK(copies[3].before.size() == 1);
}

TEST_CASE("a task waits for room that a copy under way has not given back, and only then") {
  RankTasks tasks;
  tasks.sequence.tensors = {{"gradient", 4, false}, {"activation", 4, false}, {"small", 1, false}};
  tasks.sequence.tasks = {{{{0, Access::make, false}}, 0, TaskPlace::device},
                          {{{0, Access::read, true}}, 0, TaskPlace::host},
                          {{{2, Access::make, true}}, 0, TaskPlace::device},
                          {{{1, Access::make, true}}, 0, TaskPlace::device}};
  tasks.instructions = {0, 1, 2, 3};
  tasks.updates = {-1, 0, -1, -1};
  const ResidencyPlan plan = plan_residency(tasks.sequence, 6, {});
  check_residency(tasks.sequence, plan, 6);
  const auto copies = task_copies(tasks, plan, 6, {4, {0.5}}, 4);
  REQUIRE(copies[1].beside.size() == 2);
  CHECK(copies[1].beside[0].lane == CopyLane::to_host);
  CHECK(copies[1].beside[1].lane == CopyLane::host_work);
  CHECK(copies[1].beside[1].seconds == 0.5);
  CHECK(!copies[2].waits_for_room);
  CHECK(copies[3].waits_for_room);
}

}  // namespace llmtrain::test
