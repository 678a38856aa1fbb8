// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/optim/optimizer.h"
#include "parallel/shard/states/disk_states.h"

namespace llmtrain {

// Updates weights on a GPU from states that are in the host's memory, as virtual memory would bring them: piece by
// piece what an update needs comes to the device, is updated there and goes back, one after the other, and nothing
// comes ahead (memory.policy "naive_swapping").
class SwappedUpdate {
 public:
  explicit SwappedUpdate(const at::Device& device) : device_(device) {}

  // Makes a pass of `update` with the optimizer's states. What is on the host is pinned; UpdatePass::update also leaves
  // the new weights in `compute_weights`, if any. Blocks until the host's memory is that after the pass.
  void run(const Optimizer& optimizer, const OptimizerUpdate& update, UpdatePass pass, const PieceUpdate& make);

  // Both ways, so far.
  std::int64_t bytes() const { return bytes_; }

  // Elements of a piece, at most.
  static constexpr std::int64_t piece = std::int64_t{1} << 22;

 private:
  // Where the device has the contents of `tensor`: itself, or a copy.
  at::Tensor bring(const at::Tensor& tensor);
  void send(const at::Tensor& from, const at::Tensor& to);

  at::Device device_;
  std::int64_t bytes_ = 0;
};

}  // namespace llmtrain
