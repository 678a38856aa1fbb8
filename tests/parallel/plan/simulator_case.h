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
  costs.transfer_seconds.assign(static_cast<std::size_t>(shape.stages()), seconds.transfer);
  costs.optimizer_seconds.assign(static_cast<std::size_t>(shape.pipeline), seconds.optimizer);
  return costs;
}

// The same memory for every stage, with a different power of two per kind, so that sums identify their parts.
inline StepMemory equal_memory(const ScheduleShape& shape) {
  using Category = MemoryCategory;
  using Event = MemoryEvent;
  StepMemory memory;
  for (std::int32_t i = 0; i < shape.stages(); ++i) {
    StageMemory stage;
    stage.resident[Category::weights] = 4096;
    stage.resident[Category::optimizer] = 8192;
    stage.hold({Category::weights, 64, Event::weights_are_gathered, Event::weights_are_freed});
    stage.hold({Category::gradients, 32, Event::gradients_begin, Event::gradients_are_reduced});
    stage.hold({Category::activations, 16, Event::forward_starts, Event::backward_ends});
    stage.hold({Category::buffers, 1, Event::forward_starts, Event::forward_ends});
    stage.hold({Category::buffers, 2, Event::backward_starts, Event::backward_ends});
    // A tensor that is exchanged with another rank.
    const double with_previous = shape.pipeline > 1 && i > 0 ? 4 : 0;
    const double with_next = shape.pipeline > 1 && i + 1 < shape.stages() ? 4 : 0;
    stage.hold({Category::communication, with_previous, Event::activation_arrives, Event::forward_ends});
    stage.hold({Category::communication, with_previous, Event::backward_starts, Event::gradient_is_sent});
    stage.hold({Category::communication, with_next, Event::forward_starts, Event::activation_is_sent});
    stage.hold({Category::communication, with_next, Event::gradient_arrives, Event::backward_ends});
    memory.stages.push_back(stage);
  }
  memory.rank[Category::framework] = 65536;
  memory.rank_holdings = {{Category::buffers, 8, Event::optimizer_starts, Event::optimizer_ends}};
  return memory;
}

}  // namespace llmtrain
