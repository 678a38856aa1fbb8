// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstdint>

#include "core/optim/optimizer.h"
#include "parallel/shard/states/disk_states.h"

namespace llmtrain {

// Updates weights of a GPU whose master weights and optimizer states are in the host's memory (ZeRO-Offload, Ren et
// al., arXiv 2101.06840, section 4): gradients come to the host, which makes the step, and the new weights go back.
// This happens in pieces through pinned memory, so that the host's work on one, the arrival of the next one's gradients
// and the departure of the last one's weights go on at once. Two pieces each way are pinned, whatever the model's size.
class HostUpdate {
 public:
  explicit HostUpdate(const at::Device& device);

  // Makes a pass of `update`, whose weights are the host's, and whose gradients are the device's, or the host's, once
  // what the calling thread has enqueued is done (GradientEviction::finish()). UpdatePass::update also leaves the new
  // weights in `compute_weights`, if any, as `make` writes them to those of its piece, which are the host's. All are
  // flat, and as many. Blocks until the host's states are those after the pass. Weights of the device are there for
  // what the calling thread enqueues from then on; those of the host when it returns.
  // `disk`: what has the optimizer's states, and the weights of `update` where these are on the Meta device; null: the
  // host's memory.
  void run(const OptimizerUpdate& update, DiskStates* disk, UpdatePass pass, const PieceUpdate& make);
  // Optimizer::update(): the weights are fp32, and compute weights of any float type.
  void run(Optimizer& optimizer, const OptimizerUpdate& update, DiskStates* disk = nullptr);

  // Elements of a piece, at most: those of the disk have fewer.
  static constexpr std::int64_t piece = std::int64_t{1} << 22;

 private:
  // Pinned bytes of one piece, and when the device is done with them.
  struct Buffer {
    at::Tensor gradients, weights;
    c10::Event arrived, left;
  };

  // Starts to copy a piece's gradients, and returns where they will be.
  at::Tensor fetch(std::int64_t index, const at::Tensor& from);
  // Starts to copy a piece's new weights, which are in its buffer, to the device's.
  void send(std::int64_t index, const at::Tensor& rounded, const at::Tensor& to);
  // Makes a pass over a piece, whose gradients have arrived, and sends its new weights where they are the device's.
  void step(OptimizerUpdate of_piece, std::int64_t index, UpdatePass pass, const PieceUpdate& make);
  Buffer& buffer_of(std::int64_t index) { return buffers_[static_cast<std::size_t>(index % 2)]; }

  at::Device device_;
  c10::Stream incoming_, outgoing_;
  std::array<Buffer, 2> buffers_;
};

}  // namespace llmtrain
