// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/profile/named_file.h"
#include "planner_case.h"
#include "random_recipe.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

// Sums of the same numbers in another order.
constexpr double rounding = 1e-9;

// A pass that ends sooner may meet a gather with its own traffic, which it missed before; both take turns then
// (parallel/plan/simulator/data_stream.h), so that a step may end nanoseconds later. Without such traffic it never
// does.
constexpr double meeting = 1e-6;

double tolerance(const StepCosts& costs) {
  const bool sends = std::ranges::any_of(costs.stages, [](const StageCost& stage) {
    return stage.forward.wires.longest() > 0 || stage.backward.wires.longest() > 0;
  });
  return costs.overlap && sends ? meeting : rounding;
}

constexpr double faster = 1.7;

void more_flops(ClusterProfile& profile) {
  PeakFlops& peak = profile.device.peak_flops;
  for (double* rate : {&peak.fp32, &peak.tf32, &peak.bf16, &peak.fp16, &peak.fp8}) *rate *= faster;
}
void more_memory_bandwidth(ClusterProfile& profile) { profile.device.memory_bandwidth *= faster; }
void more_memory(ClusterProfile& profile) { profile.device.memory_bytes *= faster; }
void faster_links(ClusterProfile& profile) {
  profile.node.link_bandwidth *= faster;
  for (CollectiveTable& table : profile.node.all_reduce)
    for (CollectivePoint& point : table.points) point.seconds /= faster;
}
void faster_adapters(ClusterProfile& profile) { profile.network.adapter_bandwidth *= faster; }
void more_adapters(ClusterProfile& profile) { profile.network.adapters *= 2; }
void faster_host_transfers(ClusterProfile& profile) { profile.device.pcie_bandwidth *= faster; }

TEST_CASE("a step never takes longer on a device, a node or a network that has more of one thing") {
  CHECK(rc::check([] {
    const auto layout = random_layout();
    const auto before = plan_if_legal(layout);
    if (!before) return;
    for (const auto change : {more_flops, more_memory_bandwidth, more_memory, faster_links, faster_adapters,
                              more_adapters, faster_host_transfers}) {
      const auto after = plan_if_legal(layout, change);
      RC_ASSERT(after->report.step.seconds <= before->report.step.seconds * (1 + tolerance(before->costs)));
      RC_ASSERT(before->report.fits <= after->report.fits);
    }
  }));
}

// Measured on each device apart, operators scatter either way.
void operators_of_h100(ClusterProfile& profile) {
  static const std::shared_ptr<const OperatorTables> operators =
      load_profile("h100-sxm-80gb", source_folder() / "recipes/clusters").operators;
  profile.operators = operators;
}

// Its devices differ from those of the profile of H100 in their memory alone, but for what was measured on them.
TEST_CASE("H200 is never slower than H100, whatever program runs a recipe") {
  const std::vector<std::string> programs = names_in(source_folder() / "recipes/programs");
  CHECK(rc::check([&] {
    auto layout = random_layout();
    layout.insert(layout.end(), {"cluster.profile=h100-sxm-80gb", "cluster.program=" + *rc::gen::elementOf(programs)});
    const auto before = plan_if_legal(layout);
    if (!before) return;
    layout.emplace_back("cluster.profile=h200");
    const auto after = plan_if_legal(layout, operators_of_h100);
    RC_ASSERT(after->report.step.seconds <= before->report.step.seconds * (1 + rounding));
    RC_ASSERT(before->report.fits <= after->report.fits);
  }));
}

// The seconds that wires are busy at least with what a rank sends, at the rates that the vendor states: its links to
// the others of its node, and the adapters that the ranks of a node share.
struct BusyWires {
  double links = 0;
  double adapters = 0;
};

RankGroup state_group(const CommunicationEntry& row, const Mesh& mesh) {
  const bool of_experts = row.tensors.starts_with("expert ");
  if (row.tensors.ends_with("gradient shards")) return of_experts ? expert_replica_group(mesh) : replica_group(mesh);
  if (row.ranks == (of_experts ? expert_shard_group(mesh) : shard_group(mesh)).ranks)
    return of_experts ? expert_shard_group(mesh) : shard_group(mesh);
  return of_experts ? expert_data_group(mesh) : data_group(mesh);
}

// Groups that a row does not tell apart from others are left out: their time only adds to the step.
std::optional<RankGroup> group_of_row(const CommunicationEntry& row, const Mesh& mesh) {
  switch (row.purpose) {
    case Purpose::data_parallel:
      return state_group(row, mesh);
    case Purpose::context:
      return context_group(mesh);
    case Purpose::tensor_parallel:
      if (row.ranks == mesh.tensor && mesh.expert_tensor == 1) return tensor_group(mesh);
      return std::nullopt;
    case Purpose::expert:
      if (row.collective == Collective::all_to_all && row.ranks == mesh.expert) return expert_group(mesh);
      return std::nullopt;
    case Purpose::pipeline:
    case Purpose::control:
      return std::nullopt;
  }
  return std::nullopt;
}

BusyWires busy_wires(const CommunicationEntry& row, const RankGroup& group, const Mesh& mesh,
                     const ClusterProfile& profile) {
  const auto ranks = static_cast<double>(group.ranks), inside = static_cast<double>(group.inside_node);
  const double here = std::min<double>(mesh.devices_per_node, mesh.world());
  const double adapters = static_cast<double>(profile.network.adapters) * profile.network.adapter_bandwidth;
  const double sent = row.bytes_per_rank_per_step;
  // To each other rank as much.
  if (row.collective == Collective::all_to_all)
    return {sent * (inside - 1) / (ranks - 1) / profile.node.link_bandwidth,
            sent * (ranks - inside) / (ranks - 1) * here / adapters};
  // A ring sends (n − 1)/n of the whole, once or twice. Of that any algorithm has to bring (nodes − 1)/nodes out of
  // each node, for every group that has ranks there.
  const double nodes = ranks / inside, whole = sent * ranks / (ranks - 1);
  if (nodes > 1) return {0, (nodes - 1) / nodes * whole * (here / inside) / adapters};
  return {sent / profile.node.link_bandwidth, 0};
}

// How long all tensors take that the rank sends to its neighbours in the pipeline, if they are all on other nodes.
double sending_seconds(const CommunicationEntry& row, std::int64_t rank, const Mesh& mesh,
                       const ClusterProfile& profile) {
  const RankGroup next = pipeline_neighbours(mesh, rank);
  const RankGroup previous = pipeline_neighbours(mesh, (rank + mesh.pipeline - 1) % mesh.pipeline);
  if (row.collective != Collective::send || next.inside_node > 1 || previous.inside_node > 1) return 0;
  // Each rank uses one adapter at most, and those that send at the same time share all.
  const auto adapters = static_cast<double>(profile.network.adapters);
  const double crossing = static_cast<double>(std::min(mesh.devices_per_node, next.stride));
  return row.bytes_per_rank_per_step / (profile.network.adapter_bandwidth * std::min(1.0, adapters / crossing));
}

TEST_CASE("a step is never shorter than its products on every device, nor than a rank's traffic over any wire") {
  CHECK(rc::check([] {
    const auto layout = random_layout();
    const auto plan = plan_if_legal(layout);
    if (!plan) return;
    const PlanReport& report = plan->report;
    const Mesh& mesh = report.mesh;
    RC_ASSERT(report.throughput.hfu < 1);
    RC_ASSERT(report.throughput.mfu <= report.throughput.hfu * (1 + rounding));
    const ClusterProfile shared = share_devices(profile_of(report.recipe), mesh);
    for (std::int64_t rank = 0; rank < mesh.pipeline; ++rank) {
      BusyWires busy;
      for (const CommunicationEntry& row : communication_of({plan->layout->partition(), shared},
                                                            plan->layout->schedule(), static_cast<std::size_t>(rank))) {
        busy.adapters += sending_seconds(row, rank, mesh, shared);
        const auto group = group_of_row(row, mesh);
        if (!group || group->ranks <= 1) continue;
        const BusyWires of_row = busy_wires(row, *group, mesh, shared);
        busy.links += of_row.links;
        busy.adapters += of_row.adapters;
      }
      RC_LOG() << "links " << busy.links << " adapters " << busy.adapters << " step " << report.step.seconds << "\n";
      RC_ASSERT(std::max(busy.links, busy.adapters) <= report.step.seconds);
    }
  }));
}

// What the fullest rank holds. How many tensors from other stages have arrived early depends on times: a pipeline
// counts without them, each category at its own peak.
double held_bytes(const PlanReport& report) {
  if (report.mesh.pipeline == 1) return peak_bytes(report);
  double most = 0;
  for (const PlannedRank& rank : report.ranks)
    most = std::max(most, rank.bytes.total() - rank.bytes[MemoryCategory::communication]);
  return most;
}

TEST_CASE("no rank needs more memory when more ranks share the work") {
  // Two ranks each from the start: a group's communicator takes memory that does not depend on its size.
  for (const char* axis : {"parallel.data", "parallel.tensor", "parallel.zero_shard_ranks"}) {
    const std::string key = axis;
    CHECK(rc::check([&] {
      auto layout = random_layout();
      // The same micro-batches on every data rank.
      layout.insert(layout.end(), {key + "=2", set("batch.global", key == "parallel.data" ? 16 : 32)});
      const auto fewer = plan_if_legal(layout);
      layout.insert(layout.end(), {key + "=4", set("batch.global", 32)});
      const auto more = plan_if_legal(layout);
      if (!fewer || !more) return;
      // Gradients of experts without copies are sums already. With copies they are whole ones that become shards.
      const bool has_copies = expert_shard_group(fewer->report.mesh).ranks > 1;
      if (fewer->report.recipe.model.moe && !has_copies) return;
      RC_LOG() << held_bytes(fewer->report) << " " << held_bytes(more->report) << "\n";
      RC_ASSERT(held_bytes(more->report) <= held_bytes(fewer->report) * (1 + rounding));
    }));
  }
}

TEST_CASE("twice the tokens take longer, but at most twice as long and a bit") {
  CHECK(rc::check([] {
    auto layout = random_layout();
    const auto once = plan_if_legal(layout);
    if (!once) return;
    const auto batch = once->report.recipe.batch;
    layout.push_back(set("batch.global", 2 * batch.global));
    if (*rc::gen::arbitrary<bool>()) layout.push_back(set("batch.micro", 2 * batch.micro));
    const auto twice = plan_if_legal(layout);
    if (!twice) return;
    RC_LOG() << once->report.step.seconds << " " << twice->report.step.seconds << "\n";
    RC_ASSERT(twice->report.step.seconds > once->report.step.seconds);
    RC_ASSERT(twice->report.step.seconds <= once->report.step.seconds * 2.02);
  }));
}

}  // namespace
}  // namespace llmtrain::test
