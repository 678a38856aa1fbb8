// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <vector>

namespace llmtrain {

// Copies tensors of a GPU to the host beside the GPU's computation: on a stream of their own, through pinned memory of
// a fixed size (twice state_copy_buffer bytes, which LibTorch keeps for the next copy). They are copied as they are
// when this is made, and must not change before release(); this keeps them alive. Some may be the host's.
//
// One thread, say that which writes a checkpoint, calls run(); the thread that computes goes on meanwhile, and calls
// release() before it enqueues what changes the tensors.
class StateCopy {
 public:
  struct Piece {
    at::Tensor from;  // contiguous
    std::byte* to;
  };

  // After all that the calling thread has enqueued on its stream.
  StateCopy(const at::Device& device, std::vector<Piece> pieces);
  StateCopy(const StateCopy&) = delete;
  StateCopy& operator=(const StateCopy&) = delete;

  // Copies everything, and returns when it is there; once. Throws what LibTorch throws; release() returns then, too.
  void run();

  // Lets what the calling thread enqueues from now on come after the copies. Blocks until run() has enqueued them all,
  // but for no work of the device.
  void release();

 private:
  // Pinned memory, and what is on its way into it.
  struct Buffer {
    struct Part {
      std::size_t begin = 0, bytes = 0;
      std::byte* to = nullptr;
    };
    at::Tensor memory;
    std::vector<Part> parts;
    std::size_t used = 0;
    c10::Event end;  // of the copies
  };

  void copy_all(std::vector<Buffer>& buffers);
  void add(Buffer& buffer, const at::Tensor& bytes, std::byte* to) const;
  static void unload(Buffer& buffer);

  at::Device device_;
  std::vector<Piece> pieces_;
  c10::Stream stream_;
  c10::Event start_, end_;
  std::promise<void> enqueued_;
};

inline constexpr std::int64_t state_copy_buffer = std::int64_t{32} << 20;

}  // namespace llmtrain
