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

// This rank's groups along each axis of the layout's mesh. Copyable; copies share the groups.
struct RankGroups {
  // Collective over the world; blocks. The communicator must have as many ranks as the layout and outlive this.
  RankGroups(Communicator& communicator, const Layout& layout)
      : mesh(layout.mesh()),
        context(communicator, layout),
        data(communicator, layout),
        tensor(communicator, layout),
        pipeline(communicator, layout),
        communicator_(&communicator) {}

  // The communicator of the whole world.
  Communicator& communicator() const { return *communicator_; }
  bool is_first() const { return communicator_->rank() == 0; }  // the rank that prints and writes
  // The values of every rank of the world, in rank order, so that all ranks can sum them identically. Blocks.
  std::vector<double> exchange(std::span<const double> values) const;

  // This rank's part of the parameters.
  ShardPlace shard_place() const { return {shard_degrees(mesh), tensor.position(), expert_position()}; }

  Mesh mesh;
  ContextParallel context;
  DataParallel data;  // includes the context ranks, which hold the same parameters
  TensorParallel tensor;
  PipelineParallel pipeline;

 private:
  // Expert ranks vary fastest within data.
  std::int64_t expert_position() const { return data.position() / context.ranks() % mesh.expert; }

  Communicator* communicator_;
};

}  // namespace llmtrain
