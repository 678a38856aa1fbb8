// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace llmtrain {

// What staging asks of a device: copies beside the computation, on streams of their own, ordered by marks. Computation
// is what the calling thread puts on its stream of the device. Nothing here blocks; what the device cannot do throws.
// Any thread may call it.
class StagingDevice {
 public:
  // A point on a stream.
  class Mark {
   public:
    virtual ~Mark() = default;
    virtual bool has_passed() const = 0;
  };
  using MarkPointer = std::shared_ptr<const Mark>;

  virtual ~StagingDevice() = default;

  // Each thread calls it before the others.
  virtual void enter_thread() = 0;

  // Memory of the host that the device copies to and from without help; at any address.
  virtual std::shared_ptr<std::byte> host_memory(std::int64_t bytes) = 0;

  // The end of what the computation has been given so far.
  virtual MarkPointer mark_computation() = 0;
  // What the computation is given from now on comes after the mark.
  virtual void hold_computation(const Mark& mark) = 0;

  // Copies from, and to, the device's memory, after the mark; gives the end of the copy. The memory stays until then,
  // but for what a device copies from after a failure: it may hold anything.
  virtual MarkPointer copy_out(const Mark& after, std::byte* host, const void* device, std::int64_t bytes) = 0;
  virtual MarkPointer copy_in(const Mark& after, void* device, const std::byte* host, std::int64_t bytes) = 0;
};

}  // namespace llmtrain
