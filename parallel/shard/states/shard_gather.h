// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "parallel/comm/operation.h"

namespace llmtrain {

// Brings a rank's shards of weights that are in pinned memory of the host (memory.offload.weights) to its GPU, before
// each use of them, as ZeRO-Infinity does (Rajbhandari et al., arXiv 2104.07857, section 5.2): on a stream of its own,
// beside the work of the calling thread's. The calling thread is always the same.
class WeightFetch {
 public:
  explicit WeightFetch(const at::Device& device);

  const at::Device& device() const { return device_; }
  // Zeros in pinned memory, of which LibTorch takes a power of two of bytes, and how many that are.
  static at::Tensor make_shard(std::int64_t elements, at::ScalarType type);
  static std::int64_t bytes_of(const at::Tensor& shard);

  // Starts to copy `shard` to `place` on the device, after all that the calling thread has enqueued, and calls `next`,
  // whose work on the device follows the copy alone. Nothing waits on the host. The event is that of the copy.
  c10::Event bring(const at::Tensor& shard, const at::Tensor& place, const std::function<void()>& next);
  // Lets what the calling thread enqueues from here on follow the copy.
  void await(const c10::Event& copy) const;

 private:
  at::Device device_;
  c10::Stream stream_;
};

// Flat memory that one rank owns a shard of, as it is gathered: the whole of it exists from start() to take() or
// drop().
class ShardGather {
 public:
  // Gathers the parts of all ranks of a group, as Communicator::all_gather() takes them.
  using Collective = std::function<Handle(const at::Tensor& part, const at::Tensor& whole)>;

  // Starts to gather `elements`, of which `shard` are those of `position`. `fetch` brings it from the host; null: it is
  // where the others are to be. It must not be written before wait() has returned, and on the host not before the
  // device has done what was enqueued until then.
  void start(WeightFetch* fetch, const at::Tensor& shard, std::int64_t elements, std::int64_t position,
             const Collective& gather);
  bool has_started() const { return whole_.defined(); }
  // Blocks until the whole may be read by what the calling thread enqueues from then on.
  void wait();
  const at::Tensor& whole() const { return whole_; }
  // Blocks as wait() does: what is in flight would still write into the memory.
  at::Tensor take();
  void drop() { take(); }

 private:
  WeightFetch* fetch_ = nullptr;
  at::Tensor whole_;
  std::optional<c10::Event> copied_;
  Handle gather_;
};

}  // namespace llmtrain
