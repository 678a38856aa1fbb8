// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/sharding.h"
#include "parallel/shard/context_parallel.h"
#include "parallel/shard/data_parallel.h"
#include "parallel/shard/pipeline_parallel.h"

namespace llmtrain {

// What this rank is to the others, along each axis of the mesh. Copied freely.
struct RankGroups {
  // One rank alone.
  RankGroups() = default;
  // Blocks until all ranks of the world have called it. The communicator outlives this.
  RankGroups(Communicator& communicator, const Mesh& given)
      : mesh(given),
        tensor_position(communicator.rank() % mesh.tensor),
        context(communicator, mesh),
        data(communicator, mesh),
        pipeline(communicator, mesh) {}

  // Which part of the parameters is this rank's.
  ShardPlace shard_place() const { return {{mesh.tensor, 1, 1}, tensor_position}; }

  Mesh mesh;
  std::int64_t tensor_position = 0;
  ContextParallel context;
  DataParallel data;  // with the context ranks: they hold the same parameters
  PipelineParallel pipeline;
};

}  // namespace llmtrain
