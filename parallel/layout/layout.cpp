// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/layout.h"

#include <utility>

#include "parallel/schedule/schedule_check.h"

namespace llmtrain {
namespace {

ScheduleShape schedule_shape(const Recipe& recipe, const Mesh& mesh) {
  ScheduleShape shape;
  shape.kind = recipe.pipeline.schedule;
  shape.pipeline = static_cast<std::int32_t>(mesh.pipeline);
  shape.loops = static_cast<std::int32_t>(recipe.pipeline.loops);
  shape.micro_batches = static_cast<std::int32_t>(mesh.micro_batches(recipe.batch));
  // With one rank per shard group ZeRO has nothing to divide; the schedule then omits its instructions.
  shape.zero_stage = shard_group(mesh).ranks > 1 ? static_cast<std::int32_t>(recipe.parallel.zero_stage) : 0;
  shape.reduces = data_group(mesh).ranks > 1;
  return shape;
}

}  // namespace

Partition Partition::make(const Recipe& recipe, std::int64_t devices_per_node, std::shared_ptr<const Graph> graph) {
  return on_mesh(recipe, make_mesh(recipe, devices_per_node), std::move(graph));
}

Partition Partition::on_mesh(const Recipe& recipe, const Mesh& mesh, std::shared_ptr<const Graph> graph) {
  Partition partition;
  partition.recipe = recipe;
  partition.graph = graph != nullptr ? std::move(graph) : std::make_shared<const Graph>(Graph::build(recipe.model));
  partition.mesh = mesh;
  partition.stages = place_blocks(*partition.graph, recipe.pipeline, mesh.pipeline);
  for (const Stage& stage : partition.stages)
    partition.groups.push_back(state_groups(recipe, *partition.graph, mesh, stage));
  partition.shape = schedule_shape(recipe, mesh);
  return partition;
}

PassSetting pass_setting(const Partition& partition, KernelSet kernels) {
  const Recipe& recipe = partition.recipe;
  PassSetting setting;
  setting.kernels = kernels;
  setting.batch = recipe.batch.micro;
  setting.sequence_length = recipe.batch.sequence_length;
  setting.shards = shard_degrees(partition.mesh);
  // One tensor rank has all rows: nothing is split.
  setting.splits_sequence = recipe.parallel.sequence && partition.mesh.tensor > 1;
  setting.context = partition.mesh.context;
  setting.compute = recipe.precision.compute;
  setting.fp8_level = recipe.precision.fp8_level;
  setting.attention = attention_method(recipe.model, recipe.kernels.attention);
  setting.recompute = recipe.memory.recompute;
  return setting;
}

Layout::Layout(Partition partition) : partition_(std::move(partition)), schedule_(make_schedule(partition_.shape)) {
  // Transfers are buffered per micro-batch, so as many buffers as micro-batches is what the runner provides.
  check(schedule_, partition_.shape.micro_batches);
}

}  // namespace llmtrain
