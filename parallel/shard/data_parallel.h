// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/comm/communicator.h"
#include "parallel/layout/layout.h"

namespace llmtrain {

// The ranks that hold the same parameters as this one and train on other samples. The ranks of one shard group hold one
// part of the states each (ZeRO); ranks at the same position of different shard groups hold the same part (HSDP).
// Copyable; copies share the groups.
class DataParallel {
 public:
  // Collective over the world; blocks. The communicator must outlive this.
  DataParallel(Communicator& communicator, const Layout& layout);

  int ranks() const { return data_.size(); }
  int position() const { return data_.position(); }
  int shards() const { return shard_.size(); }
  int shard() const { return shard_.position(); }
  int replicas() const { return replica_.size(); }
  int replica() const { return replica_.position(); }

  // Start collectives on flat, contiguous tensors, which must not be touched until the handle is done.
  Handle sum(const at::Tensor& whole) const;          // in place, over all ranks
  Handle sum_replicas(const at::Tensor& part) const;  // in place, over the ranks with the same part
  Handle scatter_sum(const at::Tensor& whole, const at::Tensor& part) const;  // this rank's part of the shards' sum
  Handle gather(const at::Tensor& part, const at::Tensor& whole) const;       // of all shards

 private:
  Communicator* communicator_;
  Group data_, shard_, replica_;
};

}  // namespace llmtrain
