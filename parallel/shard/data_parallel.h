// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/plan/mesh.h"

namespace llmtrain {

// The ranks that hold the same parameters as this one and train on other samples. Those of one shard group hold a part
// of the states each (ZeRO); those at the same place of different shard groups hold the same part (HSDP). Copied
// freely.
class DataParallel {
 public:
  // One rank alone: it talks to nobody.
  DataParallel() = default;
  // Blocks until all ranks of the world have called it. The communicator outlives this.
  DataParallel(Communicator& communicator, const Mesh& mesh);

  int ranks() const { return communicator_ ? data_.size() : 1; }
  int position() const { return communicator_ ? data_.position() : 0; }
  int shards() const { return communicator_ ? shard_.size() : 1; }
  int shard() const { return communicator_ ? shard_.position() : 0; }
  int replicas() const { return communicator_ ? replica_.size() : 1; }
  int replica() const { return communicator_ ? replica_.position() : 0; }

  // Of the whole world.
  int world() const { return communicator_ ? communicator_->size() : 1; }
  bool is_first() const { return communicator_ == nullptr || communicator_->rank() == 0; }  // it speaks and writes

  // Flat, contiguous tensors; they stay as they are until the handle is done. Where a group has one rank, nothing is
  // sent and `whole` is what this rank gives.
  Handle sum(const at::Tensor& whole) const;          // in place, over all ranks
  Handle sum_replicas(const at::Tensor& part) const;  // in place, over the ranks with the same part
  Handle scatter_sum(const at::Tensor& whole, const at::Tensor& part) const;  // this rank's part of the shards' sum
  Handle gather(const at::Tensor& part, const at::Tensor& whole) const;       // of all shards

  // The values of every rank of the world, rank by rank: sums in float64 do not depend on the ranks' order. Blocks.
  std::vector<double> exchange(std::span<const double> values) const;

 private:
  Communicator* communicator_ = nullptr;
  Group data_, shard_, replica_;
};

}  // namespace llmtrain
