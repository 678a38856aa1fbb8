// SPDX-License-Identifier: Apache-2.0
#include "core/residency/residency_policy.h"

#include <algorithm>
#include <utility>

#include "core/residency/residency_walk.h"

namespace llmtrain {
namespace {

constexpr int most_steps = 10;

}  // namespace

std::int64_t least_budget(const AccessSequence& sequence) {
  std::int64_t least = 0;
  for (const AccessTask& task : sequence.tasks) {
    if (task.place == TaskPlace::host) continue;
    std::int64_t bytes = task.working_bytes;
    for (const TensorUse& use : task.uses) bytes += sequence.tensors[use.tensor].bytes;
    least = std::max(least, bytes);
  }
  return least;
}

ResidencyPlan plan_residency(const AccessSequence& sequence, std::int64_t budget, const ResidencyPolicy& policy,
                             std::vector<DeviceTensor> start) {
  return ResidencyWalk(sequence, budget, policy, std::move(start)).run();
}

ResidencyPlan steady_residency(const AccessSequence& sequence, std::int64_t budget, const ResidencyPolicy& policy) {
  ResidencyPlan plan = plan_residency(sequence, budget, policy);
  for (int step = 1; step < most_steps && plan.start != plan.end; ++step)
    plan = plan_residency(sequence, budget, policy, plan.end);
  return plan;
}

void flush(ResidencyPlan& plan) {
  for (DeviceTensor& held : plan.end)
    if (std::exchange(held.is_dirty, false)) plan.after.push_back({MoveKind::write_back, held.tensor});
}

}  // namespace llmtrain
