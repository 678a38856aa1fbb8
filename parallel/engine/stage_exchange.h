// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "parallel/shard/pipeline_parallel.h"

namespace llmtrain {

// What passes between the stages in one step, of either direction, for every stage and micro-batch: within this rank it
// lies here, between ranks it is sent and received while the rank computes. Each tensor is put in once and taken once.
class StageExchange {
 public:
  using Channel = PipelineParallel::Channel;

  explicit StageExchange(const PipelineParallel& pipeline) : pipeline_(pipeline) {}

  // Forgets what is here; nothing may be under way.
  void start(std::size_t stages, std::size_t micros);

  // `stage` is the one that reads the tensor.
  void put(Channel channel, std::size_t stage, std::size_t micro, at::Tensor tensor);
  at::Tensor take(Channel channel, std::size_t stage, std::size_t micro);

  // Starts to send what was put, and lets go of it as soon as it is sent.
  void send(Channel channel, std::size_t stage, std::size_t micro, int position);
  // Starts to receive into `tensor`; take() waits for it.
  void receive(Channel channel, std::size_t stage, std::size_t micro, at::Tensor tensor, int position);
  // Waits for all that is sent.
  void finish();

 private:
  struct Slot {
    at::Tensor tensor;
    Handle arriving;
  };
  struct Sending {
    at::Tensor tensor;
    Handle handle;
  };
  Slot& slot(Channel channel, std::size_t stage, std::size_t micro);
  void drop_sent();

  const PipelineParallel& pipeline_;
  std::size_t micros_ = 0;
  std::vector<Slot> activations_, gradients_;
  std::vector<Sending> sending_;
};

}  // namespace llmtrain
