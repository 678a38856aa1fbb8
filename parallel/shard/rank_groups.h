// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/shard/data_parallel.h"
#include "parallel/shard/pipeline_parallel.h"

namespace llmtrain {

// What this rank is to the others, along each axis of the mesh. Copied freely.
struct RankGroups {
  // One rank alone.
  RankGroups() = default;
  // Blocks until all ranks of the world have called it. The communicator outlives this.
  RankGroups(Communicator& communicator, const Mesh& given)
      : mesh(given), data(communicator, mesh), pipeline(communicator, mesh) {}

  Mesh mesh;
  DataParallel data;
  PipelineParallel pipeline;
};

}  // namespace llmtrain
