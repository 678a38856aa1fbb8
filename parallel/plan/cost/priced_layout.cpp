// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/priced_layout.h"

#include "parallel/layout/emulated_machine.h"

namespace llmtrain {
namespace {

// How a rank of the profile's program runs a block: as llmtrain does, but for what the program keeps and how it scales
// FP8.
PassSetting pass_setting(const Partition& partition, const ClusterProfile& profile) {
  const Program& program = profile.program;
  PassSetting setting = pass_setting(partition);
  setting.program.device = compute_device(partition.recipe, profile);
  // No other program is known to run on CPUs: there, a plan is this one's.
  const bool is_own = setting.program.device == ComputeDevice::cpu || program.name == Program{}.name;
  setting.program.kept_tensors = is_own ? KeptTensors::core_model : KeptTensors::megatron;
  setting.program.loss_copies =
      partition.mesh.tensor > 1 ? program.memory.parallel_loss_copies : program.memory.loss_copies;
  setting.program.kept_logits = program.memory.logits;
  setting.program.remakes_elementwise = program.memory.remakes_elementwise;
  setting.program.keeps_both_orders = program.fp8.keeps_both_orders;
  setting.numbers.agrees_on_scales = program.fp8.agrees_on_scales && !partition.recipe.precision.delays_scales();
  setting.numbers.scale_bytes = program.fp8.scale_bytes;
  setting.numbers.format = partition.recipe.precision.product_format;
  // Levels above O0 differ in gradients and states alone.
  if (!program.fp8.states && stores_fp8(setting.numbers.fp8_level)) setting.numbers.fp8_level = Fp8Level::o0;
  setting.exchange.sends_tokens_once = program.experts.sends_tokens_once;
  if (setting.exchange.sends_tokens_once && can_relay_rows(partition.mesh))
    setting.exchange.node_ranks = expert_node_ranks(partition.mesh);
  return setting;
}

StateRanks dense_ranks_of(const Partition& partition) {
  const Mesh& mesh = partition.mesh;
  const auto kind = StateGroup::Kind::dense;
  return {effective_zero_stage(partition.recipe, mesh, kind), data_group(mesh), shard_group(mesh),
          gathering_group(mesh, kind), replica_group(mesh)};
}

StateRanks expert_ranks_of(const Partition& partition) {
  // Without experts there are no such groups (effective_zero_stage()).
  if (!partition.recipe.model.moe) return {};
  const Mesh& mesh = partition.mesh;
  const auto kind = StateGroup::Kind::experts;
  return {effective_zero_stage(partition.recipe, mesh, kind), expert_data_group(mesh), expert_shard_group(mesh),
          gathering_group(mesh, kind), expert_replica_group(mesh)};
}

}  // namespace

ComputeDevice compute_device(const Recipe& recipe, const ClusterProfile& profile) {
  const DeviceKind asked = recipe.cluster.device;
  const DeviceKind kind = asked == DeviceKind::automatic ? profile.device.kind : asked;
  return kind == DeviceKind::cuda ? ComputeDevice::cuda : ComputeDevice::cpu;
}

PricedLayout::PricedLayout(const Partition& partition_in, const ClusterProfile& profile_in)
    : PricedLayout(partition_in, profile_in, pass_setting(partition_in, profile_in)) {}

PricedLayout::PricedLayout(const Partition& partition_in, const ClusterProfile& profile_in, PassSetting setting)
    : partition(partition_in),
      profile(profile_in),
      operators(*partition_in.graph, setting),
      roofline(profile_in, partition_in.recipe.precision),
      collectives(profile_in, partition_in.mesh.devices_per_node, emulated_link(partition_in.recipe.launch)),
      dense_ranks(dense_ranks_of(partition_in)),
      expert_ranks(expert_ranks_of(partition_in)) {}

PrecisionRecipe PricedLayout::state_precision() const {
  PrecisionRecipe precision = recipe().precision;
  if (!program().fp8.states) precision.fp8_level = Fp8Level::off;
  return precision;
}

}  // namespace llmtrain
