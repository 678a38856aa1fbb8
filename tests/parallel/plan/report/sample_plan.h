// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/report/plan.h"

namespace llmtrain::test {

// Two stages on each of four ranks, with ZeRO-3.
inline constexpr ScheduleShape looped{.kind = PipelineSchedule::breadth_first,
                                      .pipeline = 4,
                                      .loops = 2,
                                      .micro_batches = 8,
                                      .zero_stage = 3,
                                      .reduces = true};

// A plan with synthetic costs and the simulator's timeline and memory: forwards of 1 ms and backwards of 2 ms,
// transfers of 0.1 ms, gathers and reductions of 0.8 ms, and 0.5 ms of optimizer, on devices with 10 GiB.
Plan sample_plan(const ScheduleShape& shape);

}  // namespace llmtrain::test
