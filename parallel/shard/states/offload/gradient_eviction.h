// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>

namespace llmtrain {

// Takes gradients of a GPU to pinned memory of the host as soon as they are final (memory.offload.gradients), beside
// the passes that follow, as ZeRO-Offload does (Ren et al., arXiv 2101.06840, section 4.1): on a stream of its own. The
// calling thread is always the same, and never waits.
class GradientEviction {
 public:
  explicit GradientEviction(const at::Device& device);

  // Starts to copy what the calling thread's work on the device makes of `gradients` to as much pinned memory of the
  // same type, of which the last reader has been waited for.
  void start(const at::Tensor& gradients, const at::Tensor& host);
  // Lets what the calling thread enqueues from here on follow all copies: it may have the gradients' memory, and
  // whoever waits for it finds them on the host.
  void finish();

  // What all copies so far have moved.
  std::int64_t bytes() const { return bytes_; }

 private:
  at::Device device_;
  c10::Stream stream_;
  std::int64_t bytes_ = 0;
};

}  // namespace llmtrain
