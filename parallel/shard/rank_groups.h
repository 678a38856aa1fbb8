// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "core/graph/sharding.h"
#include "parallel/layout/layout.h"
#include "parallel/shard/context_parallel.h"
#include "parallel/shard/data_parallel.h"
#include "parallel/shard/pipeline_parallel.h"
#include "parallel/shard/tensor_parallel.h"

namespace llmtrain {

// What this rank is to the others, along each axis of the layout's mesh. Copied freely.
struct RankGroups {
  // Blocks until all ranks of the world have called it. The communicator, which has as many ranks as the layout,
  // outlives this.
  RankGroups(Communicator& communicator, const Layout& layout)
      : mesh(layout.mesh()),
        context(communicator, layout),
        data(communicator, layout),
        tensor(communicator, layout),
        pipeline(communicator, layout),
        communicator_(&communicator) {}

  // Of the whole world.
  Communicator& communicator() const { return *communicator_; }
  bool is_first() const { return communicator_->rank() == 0; }  // it speaks and writes
  // The values of every rank of the world, rank by rank: sums in float64 do not depend on the ranks' order. Blocks.
  std::vector<double> exchange(std::span<const double> values) const;

  // Which part of the parameters is this rank's.
  ShardPlace shard_place() const { return {shard_degrees(mesh), tensor.position(), expert_position()}; }

  Mesh mesh;
  ContextParallel context;
  DataParallel data;  // with the context ranks: they hold the same parameters
  TensorParallel tensor;
  PipelineParallel pipeline;

 private:
  // Expert ranks are the fastest within data.
  std::int64_t expert_position() const { return data.position() / context.ranks() % mesh.expert; }

  Communicator* communicator_;
};

}  // namespace llmtrain
