// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/limited_run.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/plan/plan.h"
#include "parallel/plan/cost/priced_layout.h"
#include "parallel/plan/memory/memory_model.h"
#include "parallel/plan/planner/memory_limit.h"
#include "parallel/plan/planner/planner.h"

namespace llmtrain::app {
namespace {

// What the rank copies for a checkpoint, over all of its stages; nothing on a GPU, whose states are copied to the host.
double copy_bytes(const Partition& partition, std::int64_t pipeline_rank, const ClusterProfile& profile) {
  if (compute_device(partition.recipe, profile) != ComputeDevice::cpu) return 0;
  double bytes = 0;
  for (auto stage = static_cast<std::size_t>(pipeline_rank); stage < partition.stages.size();
       stage += static_cast<std::size_t>(partition.mesh.pipeline))
    bytes += checkpoint_copy_bytes(partition, stage);
  return bytes;
}

// By rank of the pipeline, of a rank that may need `limit` bytes.
std::vector<std::int64_t> tensor_bytes(const Plan& plan, double limit, const ClusterProfile& profile) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(plan.layout->mesh().pipeline));
  for (const PlannedRank& rank : plan.report.ranks) {
    const double rest = limit - bytes_beside_tensors(plan, rank, profile);
    std::int64_t& own = bytes.at(static_cast<std::size_t>(rank.pipeline_rank));
    own = std::max(own, static_cast<std::int64_t>(rest));
  }
  return bytes;
}

// A run's recipe with its limit, and what it was read from.
struct LimitedRun {
  std::string file;
  Recipe recipe;
  RunLaunch launch;
};

TensorLimit limit_of(const LimitedRun& run, const std::shared_ptr<const Layout>& layout);

// `less` than the layout was planned to need.
void replan(RunRequest& request, const LimitedRun& run, std::int64_t less) {
  const ClusterProfile profile = profile_of(run.recipe);
  const Plan plan = make_plan(request.layout, profile);
  LimitedRun lower = run;
  lower.recipe.memory.limit = (fullest_rank(plan.report).peak_bytes - static_cast<double>(less)) *
                              share_devices(profile, plan.layout->mesh()).ranks_per_device;
  // It goes on in its own folder.
  if (lower.recipe.checkpoint.resume == "never") lower.recipe.checkpoint.resume = "auto";
  request.layout = layout_for_run(run.file, lower.recipe, run.launch);
  if (request.plan) request.plan = plan_for_run(request.layout, run.launch);
  request.memory_advice = memory_advice_for_run(request.layout);
  lower.recipe.memory.limit = run.recipe.memory.limit;
  request.tensor_limit = limit_of(lower, request.layout);
}

TensorLimit limit_of(const LimitedRun& run, const std::shared_ptr<const Layout>& layout) {
  const ClusterProfile profile = profile_of(run.recipe);
  const Plan plan = make_plan(layout, profile);
  const double limit = limit_of_rank(run.recipe, profile, plan.layout->mesh());
  return {tensor_bytes(plan, limit, profile),
          [run](RunRequest& request, std::int64_t less) { replan(request, run, less); }};
}

}  // namespace

double bytes_beside_tensors(const Plan& plan, const PlannedRank& rank, const ClusterProfile& profile) {
  return rank.bytes[MemoryCategory::framework] + plan.memory.rank[MemoryCategory::communication] +
         copy_bytes(plan.layout->partition(), rank.pipeline_rank, profile);
}

std::optional<TensorLimit> tensor_limit_for_run(const std::string& file, const Recipe& recipe,
                                                const std::shared_ptr<const Layout>& layout, const RunLaunch& launch) {
  if (!recipe.memory.limit) return std::nullopt;
  return limit_of({file, recipe, launch}, layout);
}

}  // namespace llmtrain::app
