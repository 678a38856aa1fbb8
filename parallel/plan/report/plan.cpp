// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace llmtrain {

std::string derived_data_text(const PlanReport& report) {
  return fmt::format("{}, {}; a run keeps the recipe's and needs --set parallel.data={}", report.mesh.data,
                     derived_data_note, report.mesh.data);
}

const PlannedRank& fullest_rank(const PlanReport& report) {
  return *std::ranges::max_element(report.ranks, {}, &PlannedRank::peak_bytes);
}

std::optional<double> fallback_peak(const PlanReport& report) {
  // None is less than any.
  return std::ranges::max_element(report.ranks, {}, &PlannedRank::fallback_peak_bytes)->fallback_peak_bytes;
}

MemoryVerdict verdict_of(const PlanReport& report) {
  const double peak = fullest_rank(report).peak_bytes;
  const MemoryVerdict verdict = memory_verdict(peak, report.device_memory_bytes, report.accuracy.memory);
  if (verdict == MemoryVerdict::tight) return verdict;
  return report.fits ? MemoryVerdict::fits : MemoryVerdict::does_not_fit;
}

std::array<StepShare, step_parts> split_step(const PlannedStep& step) {
  const double compute = step.compute_seconds - step.recompute_seconds;
  // Collectives inside passes are a part of their own, so they leave the exposed communication.
  const double exposed = std::max(0.0, step.exposed_communication_seconds - step.tensor_communication_seconds);
  const double known = step.compute_seconds + step.tensor_communication_seconds + exposed + step.optimizer_seconds +
                       step.overhead_seconds;
  return {{{StepPart::compute, "compute", compute},
           {StepPart::recompute, "recompute", step.recompute_seconds},
           {StepPart::communication_in_passes, "communication in passes", step.tensor_communication_seconds},
           {StepPart::bubble, "bubble", std::max(0.0, step.seconds - known)},
           {StepPart::exposed_communication, "exposed communication", exposed},
           {StepPart::optimizer, "optimizer", step.optimizer_seconds},
           {StepPart::overhead, "overhead", step.overhead_seconds}}};
}

}  // namespace llmtrain
