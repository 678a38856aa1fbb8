// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/planned_run.h"

#include <algorithm>
#include <cmath>

#include "core/recipe/left_out_base.h"
#include "core/recipe/step_shapes.h"
#include "parallel/plan/planner/cut_steps.h"

namespace llmtrain {
namespace {

// Bytes of a checkpoint, as ranks write it: every state once, gradients not.
double checkpoint_bytes(const Partition& partition) {
  const bool has_base = !left_out_base(partition.recipe);
  double bytes = 0;
  for (const auto& stage : partition.groups) {
    for (const StateGroup& group : stage) {
      if (group.is_frozen && !has_base) continue;
      // Other ranks hold other parts, or copies of the little that is not split.
      const Mesh& mesh = partition.mesh;
      const bool is_experts = group.kind == StateGroup::Kind::experts;
      const std::int64_t parts = is_experts ? mesh.expert * shard_degrees(mesh).expert_tensor : mesh.tensor;
      const double kept = group.types.weight_bytes() + group.types.master_bytes() + group.types.moment_bytes();
      bytes += kept * static_cast<double>(group.elements() * parts);
    }
  }
  return bytes;
}

struct CheckpointSeconds {
  double waits = 0;   // of training
  double writes = 0;  // to storage in the background; the next checkpoint comes after it
};

// With checkpoint.async a rank only copies its part to the host before it goes on. None where the time is not known.
std::optional<CheckpointSeconds> checkpoint_seconds(const Partition& partition, const ClusterProfile& profile) {
  const Mesh& mesh = partition.mesh;
  const double bytes = checkpoint_bytes(partition);
  const double nodes = std::ceil(static_cast<double>(mesh.world()) / static_cast<double>(mesh.devices_per_node));
  std::optional<double> written;
  if (const auto& bandwidth = profile.operation.checkpoint_bandwidth) written = bytes / (nodes * *bandwidth);
  if (partition.recipe.checkpoint.async)
    return CheckpointSeconds{bytes / static_cast<double>(mesh.world()) / profile.device.pcie_bandwidth,
                             written.value_or(0)};
  return written ? std::optional(CheckpointSeconds{*written, 0}) : std::nullopt;
}

std::optional<PlannedGoodput> planned_goodput(const Plan& plan, const ClusterProfile& profile, double seconds,
                                              double devices) {
  const OperationProfile& operation = profile.operation;
  const Partition& partition = plan.layout->partition();
  const std::optional<CheckpointSeconds> checkpoint = checkpoint_seconds(partition, profile);
  if (!operation.device_hours_between_failures || !operation.restart_seconds || !checkpoint) return std::nullopt;
  const double between_failures = *operation.device_hours_between_failures * 3600 / devices;
  const double step = plan.simulation.step_seconds;
  const std::int64_t steps = partition.recipe.training.steps;
  // A write in the background counts like one that training waits for: it loads hosts, network and storage, which no
  // plan prices. Without it the best would be one every few steps, so that something is written all the time.
  const double best = best_checkpoint_interval(checkpoint->waits + checkpoint->writes, between_failures);
  // None begins before the last one is written.
  const double fewest = std::max(1.0, std::ceil(checkpoint->writes / step));
  PlannedGoodput goodput;
  goodput.best_every =
      static_cast<std::int64_t>(std::min(std::max(fewest, std::round(best / step)), static_cast<double>(steps)));
  const std::int64_t every = partition.recipe.checkpoint.every;
  goodput.every = every > 0 ? std::min(every, steps) : goodput.best_every;
  const double interval = static_cast<double>(goodput.every) * step;
  goodput.checkpoint_seconds = checkpoint->waits + std::max(0.0, checkpoint->writes - interval);
  const double expected = seconds_with_failures(seconds, interval, goodput.checkpoint_seconds,
                                                *operation.restart_seconds, between_failures);
  // Beyond that, no interval is survived.
  if (std::isfinite(expected)) {
    goodput.expected_seconds = expected;
    goodput.fraction = seconds / expected;
  }
  goodput.failures = seconds / between_failures;
  return goodput;
}

}  // namespace

double seconds_with_failures(double useful, double interval, double checkpoint, double restart,
                             double between_failures) {
  const double segments = useful / interval;
  // expm1: with rare failures the exponents are tiny.
  return between_failures * std::exp(restart / between_failures) *
         std::expm1((interval + checkpoint) / between_failures) * segments;
}

double best_checkpoint_interval(double checkpoint, double between_failures) {
  // Where a checkpoint takes that long, the model has no better answer than one per failure.
  if (checkpoint >= 2 * between_failures) return between_failures;
  const double share = checkpoint / (2 * between_failures);
  return std::sqrt(2 * checkpoint * between_failures) * (1 + std::sqrt(share) / 3 + share / 9) - checkpoint;
}

double tokens_per_step(const Recipe& recipe) {
  return static_cast<double>(recipe.batch.global) *
         static_cast<double>(recipe.batch.sequence_length + target_length(recipe));
}

PlannedRun planned_run(const Plan& plan, const ClusterProfile& profile) {
  PlannedRun run;
  const RunWork work = work_of_run(plan, profile);
  run.tokens = work.tokens;
  run.seconds = work.seconds;
  // Ranks that share a CPU share its price too.
  const double devices = static_cast<double>(plan.layout->mesh().world()) / profile.ranks_per_device;
  run.device_hours = run.seconds / 3600 * devices;
  const ClusterRecipe& cluster = plan.layout->recipe().cluster;
  const auto& price = cluster.price_per_device_hour ? cluster.price_per_device_hour : profile.price_per_device_hour;
  if (price) run.price = *price * run.device_hours;
  run.currency = cluster.currency;
  if (const auto& watts = profile.operation.watts_per_device)
    run.energy_kilowatt_hours = *watts * run.device_hours / 1000;
  run.goodput = planned_goodput(plan, profile, run.seconds, devices);
  return run;
}

}  // namespace llmtrain
