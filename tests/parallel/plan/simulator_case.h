// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {

struct CaseSeconds {
  double forward = 1;
  double backward = 2;
  double transfer = 0;
  double gather = 0;
  double reduce = 0;
  double optimizer = 0;
};

// The same costs for every stage and rank.
inline StepCosts equal_costs(const ScheduleShape& shape, const CaseSeconds& seconds) {
  const StageCost stage{.forward = {.seconds = seconds.forward},
                        .backward = {.seconds = seconds.backward},
                        .gather_seconds = seconds.gather,
                        .reduce_seconds = seconds.reduce};
  StepCosts costs;
  costs.stages.assign(static_cast<std::size_t>(shape.stages()), stage);
  costs.transfer_seconds.assign(static_cast<std::size_t>(shape.pipeline), seconds.transfer);
  costs.optimizer_seconds.assign(static_cast<std::size_t>(shape.pipeline), seconds.optimizer);
  return costs;
}

// The same memory for every stage, with a different power of two per kind, so that sums identify their parts.
inline StepMemory equal_memory(const ScheduleShape& shape) {
  StageMemory stage;
  stage.resident[MemoryCategory::weights] = 4096;
  stage.resident[MemoryCategory::optimizer] = 8192;
  stage.gathered_weights = 64;
  stage.unreduced_gradients = 32;
  stage.saved_activations = 16;
  stage.forward_workspace = 1;
  stage.backward_workspace = 2;
  stage.boundary_activation = 4;
  StepMemory memory;
  memory.stages.assign(static_cast<std::size_t>(shape.stages()), stage);
  memory.rank[MemoryCategory::framework] = 65536;
  memory.optimizer_workspace = 8;
  return memory;
}

}  // namespace llmtrain
