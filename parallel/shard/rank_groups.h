// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/sharding.h"
#include "core/recipe/recipe.h"
#include "parallel/shard/context_parallel.h"
#include "parallel/shard/data_parallel.h"
#include "parallel/shard/pipeline_parallel.h"
#include "parallel/shard/tensor_parallel.h"

namespace llmtrain {

// What this rank is to the others, along each axis of the mesh. Copied freely.
struct RankGroups {
  // One rank alone.
  RankGroups() = default;
  // Blocks until all ranks of the world have called it. The communicator outlives this.
  RankGroups(Communicator& communicator, const Mesh& given, const Recipe& recipe)
      : mesh(given),
        context(communicator, mesh),
        data(communicator, mesh),
        tensor(communicator, mesh, recipe),
        pipeline(communicator, mesh) {}

  // Which part of the parameters is this rank's.
  ShardPlace shard_place() const { return {{tensor.ranks(), 1, 1}, tensor.position()}; }

  Mesh mesh;
  ContextParallel context;
  DataParallel data;  // with the context ranks: they hold the same parameters
  TensorParallel tensor;
  PipelineParallel pipeline;
};

}  // namespace llmtrain
