// SPDX-License-Identifier: Apache-2.0
#include "plan_agreement.h"

#include <algorithm>
#include <cmath>

namespace llmtrain::test {
namespace {

class Judge {
 public:
  void require(bool holds, const std::string& sentence) {
    if (!holds) wrong_.push_back(sentence);
  }
  void same(double left, double right, const std::string& sentence) {
    require(std::abs(left - right) <= 1e-9 * std::max(std::abs(left), std::abs(right)),
            sentence + ": " + std::to_string(left) + ", " + std::to_string(right));
  }
  std::vector<std::string> take() { return std::move(wrong_); }

 private:
  std::vector<std::string> wrong_;
};

void judge_speed(const PlanReport& report, const ClusterProfile& profile, Judge& judge) {
  const auto tokens = static_cast<double>(report.recipe.batch.global * report.recipe.batch.sequence_length);
  const auto devices = static_cast<double>(report.mesh.world());
  const auto steps = static_cast<double>(report.recipe.training.steps);
  const PlannedThroughput& speed = report.throughput;
  judge.same(speed.tokens_per_second * report.step.seconds, tokens, "tokens per second");
  judge.same(speed.tokens_per_second_per_device * devices, speed.tokens_per_second, "tokens per device");
  judge.same(speed.samples_per_second * static_cast<double>(report.recipe.batch.sequence_length),
             speed.tokens_per_second, "samples");
  judge.same(report.run.tokens, tokens * steps, "tokens of the run");
  judge.same(report.run.seconds, report.step.seconds * steps, "seconds of the run");
  judge.same(report.run.device_hours, report.run.seconds / 3600 * devices / profile.ranks_per_device, "device hours");
  judge.require(speed.mfu > 0 && speed.mfu < 1 && speed.hfu >= speed.mfu, "MFU and HFU");
}

void judge_step(const PlanReport& report, Judge& judge) {
  const PlannedStep& step = report.step;
  judge.require(step.compute_seconds > 0 && step.recompute_seconds <= step.compute_seconds, "recompute is compute");
  judge.require(step.bubble_fraction >= -1e-12 && step.bubble_fraction < 1, "the bubble is a fraction");
  const double parts =
      step.compute_seconds + step.tensor_communication_seconds + step.optimizer_seconds + step.overhead_seconds;
  judge.require(parts <= step.seconds * (1 + 1e-9), "the step holds its parts");
  judge.require(step.exposed_communication_seconds >= step.tensor_communication_seconds * (1 - 1e-12),
                "what passes hold is exposed");
}

void judge_ranks(const Plan& plan, const ClusterProfile& profile, Judge& judge) {
  const PlanReport& report = plan.report;
  std::int64_t count = 0;
  bool fits = true;
  for (const PlannedRank& rank : report.ranks) {
    count += rank.count;
    fits = fits && rank.peak_bytes <= profile.device.memory_bytes;
    double largest = 0;
    for (const double bytes : rank.bytes.bytes) largest = std::max(largest, bytes);
    judge.require(rank.peak_bytes <= rank.bytes.total() * (1 + 1e-12), "a peak is at most its high-water marks");
    judge.require(rank.peak_bytes >= largest * (1 - 1e-12), "a peak is at least its largest category");
    const auto& simulated = plan.simulation.ranks[static_cast<std::size_t>(rank.pipeline_rank)];
    judge.require(simulated.busy_seconds <= report.step.seconds, "no rank is busy for longer than the step");
  }
  judge.require(count == report.mesh.world(), "every rank is counted once");
  judge.require(fits == report.fits || profile.device.memory_bytes == 0, "it fits when all ranks do");
}

void judge_communication(const PlanReport& report, Judge& judge) {
  for (const CommunicationEntry& line : report.communication) {
    const std::string name = std::string(purpose_name(line.purpose)) + " " + line.tensors;
    judge.require(line.ranks > 1 && line.bytes_per_rank_per_step > 0, name + " has ranks and bytes");
    judge.require(line.seconds > 0 && line.exposed_seconds >= 0, name + " takes time");
    judge.require(line.exposed_seconds <= line.seconds * (1 + 1e-12), name + " hides no more than all");
  }
  judge.require(report.mesh.world() == 1 || !report.communication.empty(), "ranks talk");
}

}  // namespace

std::vector<std::string> disagreements(const Plan& plan, const ClusterProfile& cluster) {
  const ClusterProfile profile = share_devices(cluster, plan.report.mesh);
  Judge judge;
  judge_speed(plan.report, profile, judge);
  judge_step(plan.report, judge);
  judge_ranks(plan, profile, judge);
  judge_communication(plan.report, judge);
  return judge.take();
}

}  // namespace llmtrain::test
