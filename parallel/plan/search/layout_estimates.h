// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/layout/layout.h"
#include "parallel/plan/simulator/step_costs.h"
#include "parallel/plan/simulator/step_memory.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {

// What a step takes without a simulation: about its seconds, mostly a few per cent fewer, and bytes that are alive
// together at one moment of it.

// How often a rank gathers the weights of its stages and reduces their gradients in one step.
struct DataCounts {
  double gathers_forward = 0, gathers_backward = 0, reductions = 0;
};
DataCounts data_counts(const ScheduleShape& shape);

// The window in which `micros` micro-batches of `pass_seconds`, forward and backward through all stages, pass a
// pipeline of equal ranks and stages.
double least_window(std::int64_t pipeline, std::int64_t loops, std::int64_t micros, double pass_seconds);

// How long the passes take, with data-parallel traffic beside or behind them, optimizer and overhead.
double estimate_seconds(const ScheduleShape& shape, const StepCosts& costs);

// What the fullest rank holds when its first backward begins, without tensors that stages exchange and the update's
// workspace.
double estimate_bytes(const Partition& partition, const StepMemory& memory);

// How many micro-batches of each of the rank's stages are alive when its first backward begins, by loop.
std::vector<std::int64_t> alive_passes(const ScheduleShape& shape, std::int32_t rank);

}  // namespace llmtrain
