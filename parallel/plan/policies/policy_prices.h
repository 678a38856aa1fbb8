// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "core/residency/residency_policy.h"
#include "parallel/plan/policies/memory_policy.h"
#include "parallel/plan/policies/rank_tasks.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// One way to train within a limit.
struct PolicyChoice {
  PipelineSchedule schedule = PipelineSchedule::breadth_first;
  std::int64_t loops = 1;  // stages of each rank: what comes and goes as one, PatrickStar's chunks and Harmony's packs
  ResidencyPolicy residency;
  UpdateRule update;
};

// A step within a limit of the device's memory, in the state in which all later steps are like it. Bytes are those of
// the fullest rank and the rank that moves most.
struct PolicyPrice {
  MemoryPolicy policy{};
  std::optional<PolicyChoice> choice;  // none: nothing fits
  double least_bytes = 0;              // with which it would fit; 0: it never does
  double peak_bytes = 0;
  double fetched_bytes = 0, written_bytes = 0;  // per step
  double step_seconds = 0;
  double exposed_copy_seconds = 0;  // of the rank that waits longest
};

struct PolicyTable {
  double limit_bytes = 0;
  double unlimited_seconds = 0, unlimited_bytes = 0;  // of the recipe itself with room for everything
  std::vector<PolicyPrice> prices;                    // in the order of MemoryPolicy
  std::vector<std::string> notes;                     // what the figures leave out
};

// A choice on a plan of its schedule and loops, without memory.offload: simulated by what prices the schedule
// (simulate()) with the copies that the policy makes, which check_residency() has proven. `host_seconds` is the update
// of each pipeline rank on the host. None where a task needs more than the limit; `least` is then what it needs.
std::optional<PolicyPrice> price_choice(const Plan& plan, const PolicyChoice& choice, double limit, double bandwidth,
                                        const std::vector<double>& host_seconds, double& least);

// All policies for a recipe within a limit of bytes of each device. memory.offload and memory.limit of the recipe are
// left aside. Throws Error(bad_recipe) naming the key where they do not apply: ZeRO-2 and -3, FP8 levels, CUDA graphs,
// a device without PCIe.
PolicyTable price_policies(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node,
                           double limit);

}  // namespace llmtrain
