// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// The tensor that passes between stages for one micro-batch, activations or their gradients: [tokens, hidden], or with
// sequence parallelism this rank's rows of it.
struct BoundaryShape {
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  at::TensorOptions options;
};

// The tensors that pass between stages in one step, in both directions, per stage and micro-batch: stored here between
// stages of this rank, sent and received during computation between ranks. Each tensor is put once and taken once. If
// all tensor ranks hold the whole tensor, each sends a part of its rows and the receivers gather them (Narayanan et
// al., arXiv 2104.04473, section 4.1).
class StageExchange {
 public:
  using Channel = PipelineParallel::Channel;

  // The groups must outlive this.
  explicit StageExchange(const RankGroups& groups) : groups_(groups) {}

  // Prepares for a step and drops all tensors; no receive may be in progress.
  void start(std::size_t stages, std::size_t micros);

  // `stage` is the stage that consumes the tensor. take() blocks until a received tensor has arrived.
  void put(Channel channel, std::size_t stage, std::size_t micro, at::Tensor tensor);
  at::Tensor take(Channel channel, std::size_t stage, std::size_t micro);

  // Starts to send a tensor that was put; it is released once sent. `position` is the peer's pipeline position.
  void send(Channel channel, std::size_t stage, std::size_t micro, int position);
  // Starts to receive; take() waits for the tensor.
  void receive(Channel channel, std::size_t stage, std::size_t micro, const BoundaryShape& shape, int position);
  // Blocks until all sends are complete.
  void finish();

 private:
  struct Slot {
    at::Tensor tensor;
    Handle arriving;
    bool is_part = false;
  };
  struct Sending {
    at::Tensor tensor;
    Handle handle;
  };
  Slot& slot(Channel channel, std::size_t stage, std::size_t micro);
  bool travels_in_parts(std::int64_t rows) const;
  void drop_sent();

  const RankGroups& groups_;
  std::size_t micros_ = 0;
  std::vector<Slot> activations_, gradients_;
  std::vector<Sending> sending_;
};

}  // namespace llmtrain
