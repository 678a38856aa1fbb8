// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/setting.h"

namespace llmtrain {
namespace {

KernelSet kernel_set(const Recipe& recipe, const ClusterProfile& profile) {
  const DeviceKind asked = recipe.cluster.device;
  const DeviceKind kind = asked == DeviceKind::automatic ? profile.device.kind : asked;
  return kind == DeviceKind::cuda ? KernelSet::cuda : KernelSet::cpu;
}

}  // namespace

PlanSetting make_setting(const Recipe& recipe, const Graph& graph, const ClusterProfile& profile) {
  PlanSetting setting;
  setting.mesh = make_mesh(recipe, recipe.cluster.devices_per_node.value_or(profile.node.devices));
  setting.stages = place_blocks(graph, recipe.pipeline, setting.mesh.pipeline);
  setting.shape = schedule_shape(recipe, setting.mesh);
  setting.kernels = kernel_set(recipe, profile);
  return setting;
}

}  // namespace llmtrain
