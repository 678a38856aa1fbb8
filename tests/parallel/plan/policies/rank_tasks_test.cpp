// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/policies/rank_tasks.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/parallel/plan/policies/policy_case.h"

namespace llmtrain::test {
namespace {

// "read weights of stage 0, make values of stage 0 micro 1" of the task of an instruction; a last use ends in "!".
std::string uses(const RankTasks& tasks, const Schedule& schedule, const std::string& instruction) {
  constexpr const char* words[] = {"read ", "change ", "make "};
  std::string text;
  for (std::size_t task = 0; task < tasks.sequence.tasks.size(); ++task) {
    if (to_text(schedule.ranks[0].instructions[tasks.instructions[task]]) != instruction) continue;
    for (const TensorUse& use : tasks.sequence.tasks[task].uses)
      text += (text.empty() ? "" : ", ") + std::string(words[static_cast<std::size_t>(use.access)]) +
              tasks.sequence.tensors[use.tensor].name + (use.is_last ? "!" : "");
  }
  return text;
}

}  // namespace

// A GPT whose head reads the embedding: two stages on one rank.
TEST_CASE("a pass uses its stage's tensors, what crosses the cut before it, and what another stage lends") {
  const Plan plan = plan_of(six_layers({"pipeline.loops=2", "batch.global=2", "pipeline.schedule=breadth_first"}));
  const UpdateRule rule{TaskPlace::device, true};
  const Schedule schedule = with_stage_updates(plan.layout->schedule(), rule);
  CHECK(to_text(schedule.ranks[0]) ==
        "Forward stage 0 micro 0\nForward stage 0 micro 1\nForward stage 1 micro 0\nForward stage 1 micro 1\n"
        "Backward stage 1 micro 0\nBackward stage 1 micro 1\nOptimizerStep stage 1\n"
        "Backward stage 0 micro 0\nBackward stage 0 micro 1\nOptimizerStep stage 0\n");
  const RankTasks tasks = rank_tasks(plan, schedule, 0, rule);
  CHECK(uses(tasks, schedule, "Forward stage 0 micro 1") ==
        "read weights of stage 0, make activations of stage 0 micro 1, make values of stage 0 micro 1");
  CHECK(uses(tasks, schedule, "Forward stage 1 micro 0") ==
        "read weights of stage 1, read weights of stage 0, make activations of stage 1 micro 0, "
        "make gradients of stage 0, read values of stage 0 micro 0");
  CHECK(uses(tasks, schedule, "Backward stage 1 micro 1") ==
        "read weights of stage 1, read weights of stage 0, read activations of stage 1 micro 1!, "
        "change gradients of stage 1, change values of stage 0 micro 1");
  CHECK(uses(tasks, schedule, "Backward stage 0 micro 1") ==
        "read weights of stage 0, read activations of stage 0 micro 1!, read values of stage 0 micro 1!, "
        "change gradients of stage 0");
  CHECK(uses(tasks, schedule, "OptimizerStep stage 1") ==
        "read gradients of stage 1!, change states of stage 1, change weights of stage 1");
}

TEST_CASE("what the host updates leaves where it is final, whenever the update is") {
  const Plan plan = plan_of(six_layers({"pipeline.loops=2", "batch.global=1"}));
  const std::string passes =
      "Forward stage 0 micro 0\nForward stage 1 micro 0\nBackward stage 1 micro 0\nOptimizerStep stage 1\n";
  CHECK(to_text(with_stage_updates(plan.layout->schedule(), {TaskPlace::host, false}).ranks[0]) ==
        passes + "Backward stage 0 micro 0\nOptimizerStep stage 0\nOptimizerStep stage 0\nOptimizerStep stage 1\n");
  CHECK(to_text(with_stage_updates(plan.layout->schedule(), {TaskPlace::host, true}).ranks[0]) ==
        passes + "OptimizerStep stage 1\nBackward stage 0 micro 0\nOptimizerStep stage 0\nOptimizerStep stage 0\n");
  CHECK(to_text(with_stage_updates(plan.layout->schedule(), {}).ranks[0]) ==
        "Forward stage 0 micro 0\nForward stage 1 micro 0\nBackward stage 1 micro 0\nBackward stage 0 micro 0\n"
        "OptimizerStep stage 0\nOptimizerStep stage 1\n");
}

}  // namespace llmtrain::test
