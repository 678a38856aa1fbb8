// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/residency/access_sequence.h"
#include "parallel/plan/report/plan.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {

// Where and when the weights of a stage are updated.
struct UpdateRule {
  TaskPlace place = TaskPlace::device;
  // After the stage's last backward instead of after that of all stages: without training.clip_norm alone, which waits
  // for the norm of all gradients. What the host updates leaves the device then in any case.
  bool is_early = false;
};

// The schedule with an OptimizerStep of each stage in place of that of the rank. What the host updates has two: one
// where its gradients leave, and one for the update.
Schedule with_stage_updates(const Schedule& schedule, const UpdateRule& rule);

// What a pipeline rank does in one step, as tasks over tensors.
struct RankTasks {
  AccessSequence sequence;
  std::vector<std::size_t> instructions;  // of each task: index into the rank's schedule, ascending
  std::vector<std::int32_t> updates;      // of each task: the stage that it updates; -1: none
  std::int64_t fixed_bytes = 0;           // of the device, whatever its tensors do
};

// The tensors of each stage of the rank: its weights, its gradients, its optimizer states with the master weights, and
// of each micro-batch what blocks keep for the backward and, between stages of one rank, the values that cross to the
// next one and then their gradients. A stage that borrows another's weights uses these, and their gradients, whole. All
// else that the plan counts is fixed, buffers of single passes apart: these are their working memory. `schedule` is the
// plan's as with_stage_updates() makes it by the same rule; the plan has no memory.offload, and ZeRO stage 0 or 1.
RankTasks rank_tasks(const Plan& plan, const Schedule& schedule, std::size_t rank, const UpdateRule& rule);

}  // namespace llmtrain
