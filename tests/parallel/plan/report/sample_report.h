// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/report/plan.h"

namespace llmtrain::test {

// GPT-3 175B on 1,024 devices, with plausible figures that are easy to check: a step of 25 s, of which compute takes
// 12.5, recompute 5, communication in passes 2.5, the bubble 3, exposed communication 1, optimizer 0.75 and overhead
// 0.25; the first of 16 ranks uses the most memory.
PlanReport sample_report();

}  // namespace llmtrain::test
