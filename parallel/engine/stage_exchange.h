// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/engine/local_model.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// The tensors that pass between stages in one step, activations and their gradients, per stage and micro-batch: stored
// here between stages of this rank, sent and received during computation between ranks. Each is [tokens, hidden], or
// with sequence parallelism this rank's rows of it, and is put once and taken once. If all tensor ranks hold the whole
// tensor, each sends a part of its rows and the receivers gather them (Narayanan et al., arXiv 2104.04473,
// section 4.1).
class StageExchange {
 public:
  using Channel = PipelineParallel::Channel;

  // The model must outlive this.
  explicit StageExchange(const LocalModel& model) : model_(model) {}

  // Prepares for a step and drops all tensors; no receive may be in progress.
  void start(std::size_t stages, std::size_t micros);

  // `stage` is the stage that consumes the tensor. take() blocks until a received tensor has arrived.
  void put(Channel channel, std::size_t stage, std::size_t micro, at::Tensor tensor);
  at::Tensor take(Channel channel, std::size_t stage, std::size_t micro);

  // Starts to send a tensor that was put; it is released once sent. `position` is the peer's pipeline position.
  void send(Channel channel, std::size_t stage, std::size_t micro, int position);
  // Starts to receive the tensor of a micro-batch with as many tokens; take() waits for it.
  void receive(Channel channel, std::size_t stage, std::size_t micro, std::int64_t tokens, int position);
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

  const LocalModel& model_;
  std::size_t micros_ = 0;
  std::vector<Slot> activations_, gradients_;
  std::vector<Sending> sending_;
};

}  // namespace llmtrain
