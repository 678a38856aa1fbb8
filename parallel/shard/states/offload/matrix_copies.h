// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace llmtrain {

// Brings matrices from pinned memory of the host to a GPU that updates them, and takes them back, on two streams of its
// own: while the device works on one, the next arrives and the last leaves. The calling thread, which is always the
// same, enqueues work of the device and waits for the copies of the matrix before the last alone, so that no more than
// these are on the device.
class MatrixCopies {
 public:
  // `overlap`: else copies are work among the device's other work, and each is waited for (memory.policy
  // "naive_swapping").
  MatrixCopies(const at::Device& device, bool overlap);

  // Copies of an update that begins follow all that the calling thread has enqueued.
  void begin();
  // Starts to copy what lies in flat parts of pinned memory, one after another, to a tensor of the device, which is
  // there for what the calling thread enqueues from then on, until leave().
  at::Tensor bring(const std::vector<at::Tensor>& parts);
  // Starts to copy what the calling thread's work makes of `values` to such parts. Nothing may use it from then on, nor
  // what was brought before, whose memory is kept until the copy is done.
  struct Left {
    at::Tensor values;
    std::vector<at::Tensor> parts;
  };
  // `then`: called once the host has all that has left so far, in this order.
  void leave(std::vector<Left> left, std::function<void()> then = {});
  // Blocks until everything has left.
  void finish();

  // Both ways, so far.
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Leaving {
    c10::Event done;
    std::vector<at::Tensor> kept;
    std::function<void()> then;
  };

  c10::Stream computing() const;
  c10::Stream incoming() const { return overlaps_ ? incoming_ : computing(); }
  c10::Stream outgoing() const { return overlaps_ ? outgoing_ : computing(); }
  void end_first();

  at::Device device_;
  bool overlaps_;
  c10::Stream incoming_, outgoing_;
  std::vector<at::Tensor> brought_;
  std::deque<Leaving> leaving_;
  std::int64_t bytes_ = 0;
};

}  // namespace llmtrain
