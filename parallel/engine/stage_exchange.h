// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// What passes between stages for one micro-batch, activations or their gradients: [tokens, hidden], or with sequence
// parallelism a rank's rows of it.
struct BoundaryShape {
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  at::TensorOptions options;
};

// What passes between the stages in one step, of either direction, for every stage and micro-batch: within this rank it
// lies here, between ranks it is sent and received while the rank computes. Each tensor is put in once and taken once.
// Where all tensor ranks hold the whole tensor each sends a part of its rows, and the receivers gather them (Narayanan
// et al., arXiv 2104.04473, section 4.1).
class StageExchange {
 public:
  using Channel = PipelineParallel::Channel;

  // The groups outlive this.
  explicit StageExchange(const RankGroups& groups) : groups_(groups) {}

  // Forgets what is here; nothing may be arriving.
  void start(std::size_t stages, std::size_t micros);

  // `stage` is the one that reads the tensor.
  void put(Channel channel, std::size_t stage, std::size_t micro, at::Tensor tensor);
  at::Tensor take(Channel channel, std::size_t stage, std::size_t micro);

  // Starts to send what was put, and lets go of it as soon as it is sent.
  void send(Channel channel, std::size_t stage, std::size_t micro, int position);
  // Starts to receive; take() waits for it.
  void receive(Channel channel, std::size_t stage, std::size_t micro, const BoundaryShape& shape, int position);
  // Waits for all that is sent.
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
