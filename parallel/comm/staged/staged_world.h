// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// What staging requires of a device: copies that run concurrently with computation, on separate streams ordered by
// marks. Computation is the work that the calling thread enqueues on its stream of the device. No call blocks; errors
// of the device throw. Thread-safe.
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

  // Each thread must call it before any other function.
  virtual void enter_thread() = 0;

  // Host memory that the device can copy to and from directly (pinned); any alignment.
  virtual std::shared_ptr<std::byte> host_memory(std::int64_t bytes) = 0;

  // A mark after all computation enqueued so far.
  virtual MarkPointer mark_computation() = 0;
  // Makes computation enqueued from now on wait for the mark.
  virtual void hold_computation(const Mark& mark) = 0;

  // Start a copy from or to device memory after the mark; return a mark at its end. The memory must remain valid until
  // then, except that after a failure the device memory may have been reused: the copied data are then arbitrary.
  virtual MarkPointer copy_out(const Mark& after, std::byte* host, const void* device, std::int64_t bytes) = 0;
  virtual MarkPointer copy_in(const Mark& after, void* device, const std::byte* host, std::int64_t bytes) = 0;
};

// A rank whose operations may use the memory of its device: their data pass through host memory over `host`, which
// connects the same ranks. Operations on host memory are passed on unchanged.
//
// Only wait() blocks, until the copy of the results to the device has been enqueued. A separate thread executes a
// rank's operations in the order in which they were started: it waits for the preceding computation, runs the operation
// on the host and copies the results back. The watchdog's time and the log's seconds start when the operation reaches
// the host and cover only the host's part. Sums are those of the host, in its fixed order.
std::unique_ptr<Communicator> stage_through_host(std::shared_ptr<Communicator> host,
                                                 std::unique_ptr<StagingDevice> device);

}  // namespace llmtrain
