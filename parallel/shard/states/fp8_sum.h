// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "parallel/comm/communicator.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// The sum over the data ranks of E4M3 gradients in GPU memory: in fp32 in the order of the ranks, rounded once, and
// saturated, as processors sum them. NCCL's own sums of FP8 would be rounded after every addition, in an order of its
// choice. So ranks send each other the parts that they sum, which is what a scattered sum moves, and at ZeRO-0 gather
// the results.
class Fp8Sum {
 public:
  // Whether the sum of `payload` is this one; else the Communicator's.
  static bool takes(const DataParallel& ranks, const at::Tensor& payload);

  // Starts to send the parts of `payload`, flat, which must not be touched before finish(). The last ones may be
  // shorter. Collective.
  Fp8Sum(const DataParallel& ranks, const at::Tensor& payload);

  // This rank's part of the sum, of the part's size without padding; on the current stream.
  void finish(const at::Tensor& part);
  // All of it instead. Collective.
  void finish_whole(const at::Tensor& whole);

 private:
  FlatInterval own() const { return shards_.shard(ranks_.shard()); }

  DataParallel ranks_;
  FlatShards shards_;
  at::Tensor sent_, received_;
  Handle exchange_;
};

}  // namespace llmtrain
