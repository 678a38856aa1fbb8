// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/model/block_module.h"
#include "parallel/engine/local_model.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// The tensors that pass between stages in one step, the values that cross a cut and their gradients, per stage and
// micro-batch: stored here between stages of this rank, sent and received during computation between ranks. Each cut's
// are in the order of Stage::incoming, each [tokens, features], or with sequence parallelism this rank's rows of it;
// they are put once and taken once. If all tensor ranks hold a whole tensor, each sends a part of its rows and the
// receivers gather them (Narayanan et al., arXiv 2104.04473, section 4.1).
class StageExchange {
 public:
  using Channel = PipelineParallel::Channel;

  // The model must outlive this.
  explicit StageExchange(const LocalModel& model) : model_(model) {}

  // Prepares for a step and drops all tensors; no receive may be in progress.
  void start(std::size_t stages, std::size_t micros);

  // `stage` is the stage that consumes the tensors. take() blocks until those that are received have arrived.
  void put(Channel channel, std::size_t stage, std::size_t micro, Tensors tensors);
  Tensors take(Channel channel, std::size_t stage, std::size_t micro);

  // Starts to send tensors that were put, a message each; each is released once sent. `position` is the peer's pipeline
  // position.
  void send(Channel channel, std::size_t stage, std::size_t micro, int position);
  // Starts to receive those of a micro-batch with as many tokens as `batch`; take() waits for them.
  void receive(Channel channel, std::size_t stage, std::size_t micro, const Batch& batch, int position);
  // Blocks until all sends are complete.
  void finish();

 private:
  // When a tensor that is received is there, and whether it is a part of the whole.
  struct Arrival {
    Handle handle;
    bool is_part = false;
  };
  struct Slot {
    Tensors tensors;
    c10::SmallVector<Arrival, 1> arrivals;  // none where the tensors are from a stage of this rank
  };
  struct Sending {
    at::Tensor tensor;
    Handle handle;
  };
  Slot& slot(Channel channel, std::size_t stage, std::size_t micro);
  void send(Channel channel, const at::Tensor& whole, int position);
  at::Tensor receive(Channel channel, const Value& value, const Batch& batch, int position, Slot& slot);
  bool travels_in_parts(std::int64_t rows) const;

  const LocalModel& model_;
  std::size_t micros_ = 0;
  std::vector<Slot> activations_, gradients_;
  std::vector<Sending> sending_;
};

}  // namespace llmtrain
